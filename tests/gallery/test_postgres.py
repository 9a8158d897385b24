"""What is special about galleries on a PostgreSQL server: addresses, erasure, settings, errors."""

import secrets
import threading

import numpy as np
import pytest

from samekind.gallery import Gallery, GalleryError
from samekind.gallery.server import packed_codes, parsed
from samekind.gallery.transfer import copy
from tests.gallery.cases import LENGTH, SMALL, check_holds, code_of, codes_of


@pytest.fixture
def address(server):
    return f"{server}&gallery=t_{secrets.token_hex(4)}"


@pytest.fixture
def gallery(address):
    with Gallery.create(address, length=LENGTH) as made:
        yield made


def test_an_address_names_a_gallery_and_is_shown_without_its_password():
    connection, name, shown = parsed("postgresql://me:secret@host:5433/pictures?gallery=album&sslmode=require")
    assert connection == "postgresql://me:secret@host:5433/pictures?sslmode=require"
    assert name == "album"
    assert shown == "postgresql://me@host:5433/pictures?sslmode=require&gallery=album"
    assert parsed("postgresql://host/db")[1] == "gallery"
    assert "secret" not in parsed("postgresql://host/db?password=secret")[2]
    for name in ("Album", "a;b", "1a", "", "a" * 60):
        with pytest.raises(GalleryError, match="is no name"):
            parsed(f"postgresql://host/db?gallery={name}")


def test_a_server_that_is_not_there(tmp_path):
    pytest.importorskip("psycopg")
    with pytest.raises(GalleryError, match="Check the address") as raised:
        Gallery.open(f"postgresql://me:secret@/db?host={tmp_path}", timeout=2)
    assert "secret" not in str(raised.value)


def test_a_client_without_psycopg_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(GalleryError, match=r"samekind\[postgres\]"):
        Gallery.open("postgresql://host/db")


def test_commits_are_durable_whatever_the_database_says(server, gallery):
    database = gallery._server.one("SELECT current_database()")[0]
    gallery._server.run(f"ALTER DATABASE {database} SET synchronous_commit TO off")
    try:
        with Gallery.open(f"{server}&gallery={gallery.name}") as opened:
            assert opened._server.one("SHOW synchronous_commit")[0] == "on"
            assert opened.problems() == []
    finally:
        gallery._server.run(f"ALTER DATABASE {database} RESET synchronous_commit")


def table_bytes(gallery):
    """Of all files of the gallery's tables and indexes, as they are on disk."""
    run = gallery._server
    folder = run.one("SHOW data_directory")[0]
    files = run.all(
        "SELECT pg_relation_filepath(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
        "n.nspname = %s AND c.relkind IN ('r', 'i', 't')",
        (run.schema,),
    )
    run.checkpoint()
    return b"".join(open(f"{folder}/{file}", "rb").read() for (file,) in files)


def test_removed_records_are_in_no_table_after_compaction(gallery):
    codes = codes_of(range(40))
    secret = "a name that nobody is to find again"
    ids = gallery.add(
        codes, name=[f"{secret} {at:03d}" for at in range(40)], thumbnails=[b"picture %03d" % at for at in range(40)]
    )
    removal = gallery.remove(ids[[3, 30]])
    assert removal.rows == 2
    assert "compact" in removal.describe()[1]
    assert gallery.compact() == 2
    content = table_bytes(gallery)
    for at in (3, 30):
        for gone in (codes[at].tobytes(), f"{secret} {at:03d}".encode(), b"picture %03d" % at):
            assert gone not in content
    assert codes[4].tobytes() in content
    assert f"{secret} 004".encode() in content
    assert gallery.n_erased_rows() == 0
    check_holds(gallery, {int(at): (number, None) for number, at in enumerate(ids) if number not in (3, 30)})


def test_two_writers_at_once_get_ids_of_their_own(address, gallery):
    def add(first):
        with Gallery.open(address) as other:
            for start in range(first, first + 50, 10):
                other.add(codes_of(range(start, start + 10)), note=[str(at) for at in range(start, start + 10)])

    threads = [threading.Thread(target=add, args=(first,)) for first in (0, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {record.id: (int(record.note), None) for record in gallery.find()}
    assert len(found) == 100
    check_holds(gallery, found)


def test_a_record_is_removed_once(address, gallery):
    ids = gallery.add(codes_of(range(4)))
    with Gallery.open(address) as other:
        other.remove(int(ids[0]))
    with pytest.raises(GalleryError, match="nothing was changed"):
        gallery.remove(ids[:2])
    assert len(gallery) == 3


def test_a_writer_waits_for_another_and_then_says_so(address, gallery):
    (at,) = gallery.add(codes_of([1])).tolist()
    with Gallery.open(address, timeout=0.2) as other, gallery._server.writing():
        gallery._check_known((at,))
        with pytest.raises(GalleryError, match="did not finish in time"):
            other.remove(at)
        assert other.search(code_of(1), 1).hits[0].record.id == at


def test_texts_that_postgresql_does_not_keep(gallery):
    with pytest.raises(GalleryError, match="zero byte"):
        gallery.add(codes_of([1]), label="a\0b")
    assert len(gallery) == 0


def test_a_gallery_of_a_later_version_and_one_with_a_lost_code(address, gallery):
    ids = gallery.add(codes_of(range(3)))
    gallery._server.run("DELETE FROM codes_1 WHERE id = %s", (int(ids[0]),))
    assert gallery.check().problems == ("1 records have no code.",)
    gallery._server.run("UPDATE state SET format = 99")
    with pytest.raises(GalleryError, match="Upgrade samekind"):
        Gallery.open(address)


def test_copies_between_a_folder_and_a_server(gallery, address, tmp_path):
    with Gallery.create(tmp_path / "g", length=LENGTH, layout=SMALL) as folder:
        folder.add(codes_of(range(30)), label="a", thumbnails=[b"x"] * 30, added="2020-01-02T03:04:05+00:00")
        assert copy(folder, address, lambda *at: None) == 30
    check_holds(gallery, {at + 1: (at, "a") for at in range(30)})
    assert gallery.thumbnail(3) == b"x"
    assert gallery.record(3).added == "2020-01-02T03:04:05+00:00"
    assert copy(gallery, tmp_path / "back", lambda *at: None) == 30
    with Gallery.open(tmp_path / "back") as back:
        check_holds(back, {at + 1: (at, "a") for at in range(30)})


def test_rows_of_copy_are_big_endian_with_their_lengths():
    content = packed_codes(np.array([5]), np.array([6]), np.array([[1.0, 2.0, 3.0]], np.float32), 2)
    row = content[19:-2]
    assert row[:2] == b"\0\4"
    assert int.from_bytes(row[6:14], "big") == 5
    assert np.frombuffer(row, ">f4", 2, 34).tolist() == [1.0, 2.0]
    assert np.frombuffer(row[-4:], ">f4")[0] == 3.0
