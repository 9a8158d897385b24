"""A file is written whole or not at all."""

import errno
import io
import os
import stat

import pytest

from samekind.files import whole_file, write_whole

posix_only = pytest.mark.skipif(os.name != "posix", reason="permissions and links as on POSIX")
not_as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")


def names_in(folder):
    return sorted(os.listdir(folder))


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


class FullDisk(io.FileIO):
    """A file whose disk takes the first bytes and then no more."""

    def write(self, data):
        super().write(bytes(data)[:3])
        no_space()


@pytest.mark.parametrize("content", [b"", b"\x00\r\n\xff", "", "naïve\nπ\r\n"])
def test_content_is_written_as_given(tmp_path, content):
    write_whole(tmp_path / "a", content)
    expected = content.encode("utf-8") if isinstance(content, str) else content
    assert (tmp_path / "a").read_bytes() == expected
    assert names_in(tmp_path) == ["a"]


def test_path_may_be_a_string_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_whole("a", b"new")
    assert names_in(tmp_path) == ["a"]


def test_name_as_long_as_the_file_system_allows(tmp_path):
    write_whole(tmp_path / ("n" * 255), b"new")
    assert names_in(tmp_path) == ["n" * 255]


def test_older_file_stays_until_the_block_ends(tmp_path):
    write_whole(tmp_path / "a", b"old")
    with whole_file(tmp_path / "a") as file:
        file.write(b"new")
        file.flush()
        assert (tmp_path / "a").read_bytes() == b"old"
    assert (tmp_path / "a").read_bytes() == b"new"


def write_half_and_raise(path, stop):
    with whole_file(path) as file:
        file.write(b"half")
        raise stop


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_older_file_survives_an_interruption(tmp_path, stop):
    write_whole(tmp_path / "a", b"old")
    with pytest.raises(stop):
        write_half_and_raise(tmp_path / "a", stop)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names_in(tmp_path) == ["a"]


def full_at_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", no_space)


def full_at_write(monkeypatch):
    monkeypatch.setattr("samekind.files.open", lambda path, _: FullDisk(path, "xb"), raising=False)


def full_at_replace(monkeypatch):
    monkeypatch.setattr(os, "replace", no_space)


@pytest.mark.parametrize("fill", [full_at_fsync, full_at_write, full_at_replace])
@pytest.mark.parametrize("older", [True, False])
def test_full_disk_leaves_the_older_file_and_nothing_else(tmp_path, monkeypatch, fill, older):
    if older:
        (tmp_path / "a").write_bytes(b"old")
    fill(monkeypatch)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(tmp_path / "a", b"much longer than before")
    assert caught.value.errno == errno.ENOSPC
    assert str(tmp_path / "a") in str(caught.value)
    assert names_in(tmp_path) == (["a"] if older else [])
    assert not older or (tmp_path / "a").read_bytes() == b"old"


def test_text_that_has_no_utf8_form_touches_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "a", "\ud800")
    assert names_in(tmp_path) == []


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="make it first") as caught:
        write_whole(tmp_path / "missing" / "a", b"new")
    assert str(tmp_path / "missing") in str(caught.value)


def test_folder_is_not_a_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="give the name of a file"):
        write_whole(tmp_path, b"new")


@posix_only
def test_device_is_not_replaced():
    with pytest.raises(OSError, match="plain file"):
        write_whole(os.devnull, b"new")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@posix_only
def test_new_file_has_the_permissions_of_an_ordinary_one(tmp_path):
    (tmp_path / "ordinary").write_bytes(b"")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@posix_only
def test_replaced_file_keeps_its_permissions(tmp_path):
    write_whole(tmp_path / "a", b"old")
    (tmp_path / "a").chmod(0o600)
    write_whole(tmp_path / "a", b"new")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@posix_only
def test_symbolic_link_stays_one(tmp_path):
    write_whole(tmp_path / "a", b"old")
    (tmp_path / "link").symlink_to("a")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_bytes() == b"new"


@not_as_root
def test_write_protected_file_is_left_alone(tmp_path):
    write_whole(tmp_path / "a", b"old")
    (tmp_path / "a").chmod(0o400)
    with pytest.raises(PermissionError, match="write-protected"):
        write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


@not_as_root
def test_unwritable_folder_names_the_file_asked_for(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError) as caught:
            write_whole(tmp_path / "a", b"new")
    finally:
        tmp_path.chmod(0o700)
    assert caught.value.filename == str(tmp_path / "a")
    assert names_in(tmp_path) == []


@posix_only
def test_the_new_name_is_durable_too(tmp_path, monkeypatch):
    """The folder is synchronised after the rename, or a crash may undo it."""
    steps, replace, fsync = [], os.replace, os.fsync

    def noted_replace(*given):
        steps.append("replace")
        replace(*given)

    def noted_fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "replace", noted_replace)
    monkeypatch.setattr(os, "fsync", noted_fsync)
    write_whole(tmp_path / "a", b"new")
    assert steps == ["file", "replace", "folder"]
