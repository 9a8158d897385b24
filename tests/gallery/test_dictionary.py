"""Whatever is done to a gallery, it holds what a dictionary would, and no trace of what was removed."""

import secrets
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from samekind.gallery import Gallery
from tests.gallery.cases import LENGTH, SMALL, all_bytes, check_holds, code_of, codes_of

labels = st.sampled_from(["a", "b", None])


class GalleryMachine(RuleBasedStateMachine):
    ids = Bundle("ids")

    def place(self):
        self.folder = Path(tempfile.mkdtemp())
        return self.folder / "g"

    @initialize()
    def start(self):
        self.address = self.place()
        self.gallery = Gallery.create(self.address, length=LENGTH, layout=SMALL)
        self.reader = Gallery.open(self.address, read_only=True)
        self.expected = {}
        self.gone = []
        self.next = 0

    def teardown(self):
        if hasattr(self, "gallery"):
            self.gallery.close()
            self.reader.close()
            self.clean()

    def clean(self):
        shutil.rmtree(self.folder)

    def new_numbers(self, n):
        self.next += n
        return list(range(self.next - n, self.next))

    @rule(target=ids, n=st.integers(1, 20), label=labels)
    def add(self, n, label):
        numbers = self.new_numbers(n)
        added = self.gallery.add(codes_of(numbers), label=label).tolist()
        assert not set(added) & (set(self.expected) | {at for at, _ in self.gone})
        self.expected |= {at: (number, label) for at, number in zip(added, numbers, strict=True)}
        return multiple(*added)

    @rule(at=consumes(ids))
    def remove(self, at):
        self.gone.append((at, self.expected.pop(at)[0]))
        self.gallery.remove(at)

    @rule(at=ids, label=labels)
    def replace(self, at, label):
        (number,) = self.new_numbers(1)
        self.gone.append((at, self.expected[at][0]))
        self.gallery.replace(at, code_of(number), label=label)
        self.expected[at] = (number, label)

    @rule()
    def compact(self):
        self.gallery.compact()
        assert self.gallery.n_erased_rows() == 0

    @rule()
    def reopen(self):
        self.gallery.close()
        self.gallery = Gallery.open(self.address)

    @rule()
    def check(self):
        report = self.gallery.check()
        assert report.sound, report.problems
        assert not report.repaired

    @invariant()
    def holds_what_it_must(self):
        if hasattr(self, "gallery"):
            check_holds(self.gallery, self.expected)
            check_holds(self.reader, self.expected)


class FolderMachine(GalleryMachine):
    @rule()
    def go_on_with_a_copy_of_the_files(self):
        """As after a power failure between two calls: only what is in the files counts."""
        copy = self.folder / f"copy {self.next} {len(self.gone)} {len(list(self.folder.iterdir()))}"
        shutil.copytree(self.gallery.path, copy)
        self.gallery.close()
        self.reader.close()
        self.gallery, self.reader = Gallery.open(copy), Gallery.open(copy, read_only=True)
        shutil.rmtree(self.folder / "g")
        self.gallery.close()
        self.reader.close()
        copy.rename(self.folder / "g")
        self.gallery = Gallery.open(self.folder / "g")
        self.reader = Gallery.open(self.folder / "g", read_only=True)

    @invariant()
    def holds_nothing_that_was_removed(self):
        if hasattr(self, "gallery") and self.gone:
            content = all_bytes(self.gallery)
            for _, number in self.gone[-3:]:
                assert code_of(number).tobytes() not in content


FolderMachine.TestCase.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)
TestFolder = FolderMachine.TestCase


@pytest.mark.slow
def test_a_gallery_on_a_server_holds_what_a_dictionary_would(server):
    class ServerMachine(GalleryMachine):
        def place(self):
            return f"{server}&gallery=machine_{secrets.token_hex(4)}"

        def clean(self):
            pass

    options = settings(max_examples=6, stateful_step_count=12, deadline=None)
    run_state_machine_as_test(ServerMachine, settings=options)
