"""Pictures into a store: what is stored, what is left out, and what an interruption costs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from samekind.extraction import extract, frame_for, mirror_means, picture_sizes, with_roots
from samekind.images.extractor import Extractor
from samekind.images.listing import list_images
from samekind.images.load import ImageError, load_image
from samekind.images.slbp import SoftLBP
from samekind.store import ArrayStore, DiskStore, FeatureGroups, GroupsOf
from tests.picture_folders import SIZE, bytes_of, small_extractor, write_pictures


def files_of(folder):
    return list_images(folder, labelled=True)


@pytest.fixture
def pictures(tmp_path):
    return write_pictures(tmp_path / "pictures")


def extract_by_sevens(*arguments, **options):
    """Seven pictures a shard."""
    return extract(*arguments, **options, shard_bytes=7 * 2 * small_extractor().n_features)


def test_the_store_holds_every_descriptor_to_float16(pictures, tmp_path):
    extractor = small_extractor()
    store = extract_by_sevens(files_of(pictures), tmp_path / "store", extractor)
    assert len(store) == 24
    assert store.complete
    assert store.shard_rows == 7
    align = extractor.aligner()
    expected = np.stack([extractor.features(align(load_image(pictures / i), i).picture) for i in store.image_ids])
    panel = store.panel(range(50), np.arange(24))
    np.testing.assert_array_equal(panel, expected.astype(np.float16).astype(np.float32))
    assert [i.split("/")[0] for i in store.image_ids] == store.labels.tolist()


def test_the_number_of_threads_does_not_change_a_byte(pictures, tmp_path):
    for jobs in (1, 4):
        extract_by_sevens(files_of(pictures), tmp_path / f"{jobs}", small_extractor(), n_jobs=jobs)
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "4")


def test_progress_counts_every_picture(pictures, tmp_path):
    seen = []
    extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), progress=lambda *at: seen.append(at))
    assert seen == [(k, 24) for k in range(1, 25)]


def test_a_broken_picture_is_left_out_with_its_reason(pictures, tmp_path):
    broken = pictures / "person 02" / "1.png"
    broken.write_bytes(broken.read_bytes()[:100])
    store = extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor())
    assert list(store.skipped) == ["person 02/1.png"]
    assert "cannot be decoded" in store.skipped["person 02/1.png"]
    assert len(store) == 23
    assert "person 02/1.png" not in store.image_ids


def test_fail_ends_at_a_broken_picture_and_keeps_what_was_done(pictures, tmp_path):
    broken = pictures / "person 05" / "1.png"
    whole = broken.read_bytes()
    broken.write_bytes(b"")
    with pytest.raises(ImageError, match="is empty"):
        extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), on_error="fail")
    assert len(DiskStore.open(tmp_path / "store")) == 21
    broken.write_bytes(whole)
    seen = []
    extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), progress=lambda *at: seen.append(at))
    assert seen[-1] == (3, 3)
    extract_by_sevens(files_of(pictures), tmp_path / "at once", small_extractor())
    assert bytes_of(tmp_path / "store") == bytes_of(tmp_path / "at once")


def test_new_pictures_are_added(pictures, tmp_path):
    extract(files_of(pictures), tmp_path / "store", small_extractor())
    before = bytes_of(tmp_path / "store")
    write_pictures(pictures, 2, first=20)
    store = extract(files_of(pictures), tmp_path / "store", small_extractor())
    assert len(store) == 32
    assert set(store.labels[24:]) == {"person 20", "person 21"}
    after = bytes_of(tmp_path / "store")
    assert all(after[name] == digest for name, digest in before.items() if name != "manifest.json")


def test_an_unfinished_store_wants_the_pictures_it_was_begun_with(pictures, tmp_path):
    (pictures / "person 05" / "1.png").write_bytes(b"")
    with pytest.raises(ImageError):
        extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), on_error="fail")
    others = write_pictures(tmp_path / "others", 2, first=20)
    with pytest.raises(ValueError, match=r"is unfinished, and 3 of the pictures .* person 05/1.png"):
        extract_by_sevens(files_of(others), tmp_path / "store", small_extractor())


def test_the_same_picture_under_two_names_is_found(pictures, tmp_path):
    (pictures / "person 03" / "copy.png").write_bytes((pictures / "person 01" / "2.png").read_bytes())
    store = extract(files_of(pictures), tmp_path / "store", small_extractor())
    assert store.duplicates() == [("person 01/2.png", "person 03/copy.png")]


def test_pictures_without_a_label_are_refused(pictures, tmp_path):
    unlabelled = list_images(pictures / "person 01", labelled=False)
    with pytest.raises(ValueError, match="has no label"):
        extract(unlabelled, tmp_path / "store", small_extractor())


KILLED = """
import sys, time
from samekind import extraction
from samekind.images.listing import list_images
from tests.picture_folders import small_extractor

def wait_to_be_killed(done, total):
    if done == int(sys.argv[3]):
        print("there", flush=True)
        time.sleep(600)

files = list_images(sys.argv[1], labelled=True)
shard_bytes = 7 * 2 * small_extractor().n_features
extraction.extract(files, sys.argv[2], small_extractor(), progress=wait_to_be_killed, shard_bytes=shard_bytes)
"""


@pytest.mark.parametrize("after", [1, 9, 20])
def test_a_killed_run_is_resumed_to_the_same_bytes(pictures, tmp_path, after):
    command = [sys.executable, "-c", KILLED, str(pictures), str(tmp_path / "store"), str(after)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "there\n"
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert not DiskStore.open(tmp_path / "store").complete
    extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor())
    extract_by_sevens(files_of(pictures), tmp_path / "at once", small_extractor())
    assert bytes_of(tmp_path / "store") == bytes_of(tmp_path / "at once")


def test_a_full_disk_loses_one_shard_at_most(pictures, tmp_path, monkeypatch):
    import errno
    import stat

    room = [4]  # the manifest, and a shard: two arrays and its record

    def sync_until_full(descriptor):
        room[0] -= not stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", sync_until_full)
    with pytest.raises(OSError, match="The disk is full"):
        extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor())
    assert len(DiskStore.open(tmp_path / "store")) == 7
    monkeypatch.undo()
    extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor())
    extract_by_sevens(files_of(pictures), tmp_path / "at once", small_extractor())
    assert bytes_of(tmp_path / "store") == bytes_of(tmp_path / "at once")


def test_an_interrupt_ends_soon(pictures, tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        extract(files_of(pictures), tmp_path / "store", small_extractor(), progress=interrupt)
    assert time.perf_counter() - start < 20
    assert extract(files_of(pictures), tmp_path / "store", small_extractor()).complete


def test_a_repaired_picture_is_taken_in_when_asked(pictures, tmp_path):
    broken = pictures / "person 02" / "1.png"
    whole = broken.read_bytes()
    broken.write_bytes(b"")
    assert len(extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor())) == 23
    again = extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), retry=True)
    assert (len(again), list(again.skipped)) == (23, ["person 02/1.png"])
    broken.write_bytes(whole)
    assert len(extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor())) == 23
    store = extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), retry=True)
    assert (len(store), store.planned, store.skipped) == (24, 24, {})
    assert store.image_ids[-1] == "person 02/1.png"
    assert len(extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), retry=True)) == 24


def test_an_interrupted_retry_does_not_try_twice(pictures, tmp_path):
    broken = pictures / "person 02" / "1.png"
    whole = broken.read_bytes()
    broken.write_bytes(b"")
    extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor())
    with pytest.raises(ImageError):
        extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), retry=True, on_error="fail")
    broken.write_bytes(whole)
    store = extract_by_sevens(files_of(pictures), tmp_path / "store", small_extractor(), retry=True)
    assert (len(store), len(set(store.image_ids))) == (24, 24)


def test_too_little_room_is_said_before_the_work(pictures, tmp_path, monkeypatch):
    import shutil
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100_000, 90_000, 10_000))
    seen = []
    with pytest.raises(OSError, match=r"too little room: the store needs up to .* GB are free"):
        extract(files_of(pictures), tmp_path / "store", small_extractor(), progress=lambda *at: seen.append(at))
    assert not seen


FACES = Path(__file__).parents[2] / "shared" / "data" / "lfw-original-sample" / "images"


@pytest.mark.skipif(not FACES.is_dir(), reason="no ../shared/data/lfw-original-sample beside the repository")
def test_detected_faces_and_a_second_try_with_the_largest_of_several(tmp_path):
    files = [file for file in files_of(FACES) if file.label in ("AJ_Cook", "Ahmed_Chalabi", "Atom_Egoyan")]
    extractor = Extractor.over(n_regions=20, alignment="detect")
    store = extract(files, tmp_path / "store", extractor)
    assert "Atom_Egoyan" not in store.labels
    assert "2 faces found" in store.skipped["Atom_Egoyan/Atom_Egoyan_0001.jpg"]
    again = extract(files, tmp_path / "store", extractor, several="largest", retry=True)
    assert len(again) == len(files)
    assert again.notes["Atom_Egoyan/Atom_Egoyan_0001.jpg"] == ["2 faces found, the largest taken"]
    assert again.skipped == {}


def test_the_crop_follows_the_pictures_that_can_be_read(pictures):
    (pictures / "person 02" / "1.png").write_text("no picture")
    files = files_of(pictures)
    assert picture_sizes(files).tolist() == [[44, 60]] * 23
    frame = frame_for(files)
    assert (frame.width, frame.height) == (44, 60)


HALF_ULP = 2.0**-11  # of float16, relative


def both_ways(store, pictures, extractor):
    """Descriptors of the store's pictures and of their mirror images, from the pictures: (2, n, n_features)."""
    align = extractor.aligner()
    crops = [align(load_image(pictures / i), i).picture for i in store.image_ids]
    return np.stack([extractor.features_and_mirrored(crop) for crop in crops], axis=1)


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """Pictures, and a store of them whose groups all have their mirror images."""
    folder = tmp_path_factory.mktemp("described")
    pictures = write_pictures(folder / "pictures", n_labels=3)
    return pictures, extract(files_of(pictures), folder / "store", small_extractor(n_regions=24))


def test_mirror_means_of_a_store_are_those_of_its_pictures(described):
    pictures, store = described
    plain, mirrored = both_ways(store, pictures, small_extractor(n_regions=24))
    means = mirror_means(store).panel(range(48), np.arange(len(store)))
    rounding = HALF_ULP * (np.abs(plain) + np.abs(mirrored)) / 2 + 1e-5
    assert (np.abs(means - (plain + mirrored) / 2) <= rounding).all()
    assert np.abs(means - plain).max() > 0.1


def test_mirror_means_of_roots_take_roots_first(described):
    pictures, store = described
    rooted = with_roots(store)
    extractor = Extractor.from_json(rooted.front_end)
    assert [part.family for part in extractor.parts][1] == SoftLBP(root=True)
    assert rooted.front_end["families"][0] == store.front_end["families"][0]
    plain, mirrored = both_ways(store, pictures, extractor)
    means = mirror_means(rooted)
    panel = means.panel(range(48), np.arange(len(store)))
    slbp = slice(24 * 45, None)
    rounding = HALF_ULP * (np.abs(plain) + np.abs(mirrored)) / 2 + 1e-5
    rounding[:, slbp] += 2e-4  # of the roots of numbers below float16's smallest normal one
    assert (np.abs(panel - (plain + mirrored) / 2) <= rounding).all()
    assert means.front_end == rooted.front_end


def test_roots_are_taken_once(described):
    _, store = described
    once = with_roots(store)
    twice = with_roots(once)
    np.testing.assert_array_equal(twice.panel([3, 30], [0, 1]), once.panel([3, 30], [0, 1]))
    np.testing.assert_array_equal(once.panel([3], [0, 1]), store.panel([3], [0, 1]))
    np.testing.assert_array_equal(once.panel([30], [0, 1]), np.sqrt(store.panel([30], [0, 1])))
    assert twice.front_end == once.front_end
    only_cov = GroupsOf.of_families(store, ["cov"])
    np.testing.assert_array_equal(with_roots(only_cov).panel([3], [0]), store.panel([3], [0]))


def test_mirror_means_of_some_groups_are_those_of_all(described):
    _, store = described
    mirrors = small_extractor(n_regions=24).mirror_groups()
    closed = np.unique([30, 41, mirrors[30], mirrors[41]])
    part = mirror_means(with_roots(GroupsOf(store, closed)))
    every = mirror_means(with_roots(store))
    np.testing.assert_array_equal(part.panel(range(len(closed)), [4, 2]), every.panel(closed, [4, 2]))
    assert part.numbers.tolist() == closed.tolist()
    alone = np.flatnonzero(mirrors > np.arange(48))[0]
    lonely = mirror_means(GroupsOf(store, [alone]))
    with pytest.raises(ValueError, match=r"Group 0 \(cov .*\) has no mirror image in the store"):
        lonely.panel([0], [4, 2])


def test_families_at_several_levels_are_stored_under_their_names(described, tmp_path):
    pictures, _ = described
    names = ["cov", "slbp+r2@0.5-25x30", "slbp+tt", "cov@0.5"]
    extractor = Extractor.over(names, n_regions=24, frame=SIZE)
    store = DiskStore.open(extract(files_of(pictures), tmp_path / "store", extractor).path)
    assert {name: len(members) for name, members in store.families.items()} == dict(
        zip(names, [24, 8, 24, 6], strict=True)
    )
    assert (tmp_path / "store" / "slbp+r2@0.5-25x30-00000.npy").exists()
    assert store.group_names[24].startswith("slbp+r2@0.5-25x30 ")
    rooted = with_roots(store)
    every = Extractor.from_json(rooted.front_end)
    assert [part.name for part in every.parts] == names
    plain, mirrored = both_ways(store, pictures, every)
    of_roots, rows = 2e-4, np.arange(len(store))  # see above
    assert (np.abs(rooted.panel(range(62), rows) - plain) <= HALF_ULP * np.abs(plain) + of_roots).all()
    means, rounding = mirror_means(rooted), HALF_ULP * (np.abs(plain) + np.abs(mirrored)) / 2 + of_roots
    assert (np.abs(means.panel(range(62), rows) - (plain + mirrored) / 2) <= rounding).all()


def test_what_was_not_made_of_pictures_has_no_mirror_images():
    table = ArrayStore(np.ones((3, 4)), FeatureGroups.parse(2, 4))
    for view in (mirror_means, with_roots):
        with pytest.raises(ValueError, match="not made from pictures"):
            view(table)
