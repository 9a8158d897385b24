"""A gallery adds, finds, replaces and erases, and is the same after it was closed and opened."""

import numpy as np
import pytest

from samekind import Metric
from samekind.gallery import Gallery, GalleryError, Layout
from samekind.kernels.nearest import distances_to
from samekind.model.similarity import Similarity

SMALL = Layout(block_rows=16, segment_blocks=3)
LENGTH = 5


def made_codes(n, seed=0, length=LENGTH):
    return np.random.default_rng(seed).standard_normal((n, length)).astype(np.float32)


def made_model(seed=0, mirror="none", n_components=LENGTH):
    components = np.random.default_rng(seed).standard_normal((n_components, 7))
    return Metric.linear(components, np.arange(7), 7).with_mirror(mirror)


@pytest.fixture
def gallery(place):
    with Gallery.create(place("g"), length=LENGTH, layout=SMALL) as made:
        yield made


@pytest.fixture
def folder_gallery(tmp_path):
    with Gallery.create(tmp_path / "g", length=LENGTH, layout=SMALL) as made:
        yield made


def nearest_by_sorting(codes, query, k):
    """Places and distances by sorting all of them; of equal ones the first."""
    distances = distances_to(codes, np.zeros(len(codes)), query.astype(np.float64))
    order = np.lexsort((np.arange(len(codes)), distances))[:k]
    return order, distances[order]


def check_finds(gallery, ids, codes, k=7):
    queries = made_codes(5, seed=9)
    batch = gallery.search_many(queries, k)
    for query, from_batch in zip(queries, batch, strict=True):
        answer = gallery.search(query, k)
        order, distances = nearest_by_sorting(codes, query, k)
        assert [hit.record.id for hit in answer.hits] == [ids[at] for at in order]
        assert [hit.distance for hit in answer.hits] == distances.tolist()
        assert answer.hits == from_batch.hits
        assert answer.n_searched == len(codes)


def test_more_neighbours_than_records_are_all_of_them_also_where_rows_are_erased(gallery):
    ids = gallery.add(made_codes(40))
    gallery.remove(ids[:37])
    for answer in (gallery.search(made_codes(1)[0], 10**12), gallery.search_many(made_codes(2), 10**12)[1]):
        assert sorted(hit.record.id for hit in answer.hits) == ids[37:].tolist()
    gallery.remove(ids[37:])
    assert gallery.search(made_codes(1)[0], 10**12).hits == gallery.search_many(made_codes(2), 5)[1].hits == ()


def test_a_name_is_added_once_where_that_is_asked_for(gallery):
    codes = made_codes(5)
    first = gallery.add(codes[:2], name=["a", "b"])
    ids = gallery.add(codes, name=["b", "c", "c", None, "a"], thumbnails=[b"0", b"1", b"2", b"3", b"4"], once=True)
    assert [at > 0 for at in ids] == [False, True, False, True, False]
    assert gallery.names() == {"a", "b", "c"}
    assert gallery.names(["c", "x"]) == {"c"}
    assert np.array_equal(gallery.codes([*first, ids[1], ids[3]]), codes[[0, 1, 1, 3]])
    assert (gallery.thumbnail(ids[1]), gallery.thumbnail(ids[3])) == (b"1", b"3")
    assert gallery.add(codes[:1], name="a", once=True).tolist() == [0]
    assert gallery.check().sound


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 47, 48, 49, 130])
def test_search_finds_what_sorting_finds_in_any_number_of_blocks_and_segments(gallery, n):
    codes = made_codes(n)
    ids = gallery.add(codes, label="a").tolist()
    assert len(gallery) == n
    check_finds(gallery, ids, codes)


def test_what_was_added_is_there_after_reopening(place):
    codes = made_codes(70)
    with Gallery.create(place("g"), length=LENGTH, layout=SMALL) as made:
        ids = made.add(codes[:40], label="a", name=[str(i) for i in range(40)]).tolist()
        ids += made.add(codes[40:], label="b", note="late").tolist()
    with Gallery.open(place("g"), read_only=True) as opened:
        check_finds(opened, ids, codes)
        assert opened.record(ids[3]).name == "3"
        assert opened.record(ids[50]).note == "late"
        assert opened.labels() == {"a": 40, "b": 30}
        assert np.array_equal(opened.codes(ids[::-1]), codes[::-1])
        with pytest.raises(GalleryError, match="for reading only"):
            opened.add(codes[:1])


def test_a_reader_sees_what_another_adds_and_removes(gallery, place):
    with Gallery.open(place("g"), read_only=True) as reader:
        codes = made_codes(60)
        ids = gallery.add(codes).tolist()
        check_finds(reader, ids, codes)
        gallery.remove(ids[5:9])
        check_finds(reader, ids[:5] + ids[9:], np.delete(codes, slice(5, 9), axis=0))
        gallery.compact()
        check_finds(reader, ids[:5] + ids[9:], np.delete(codes, slice(5, 9), axis=0))


def test_ids_are_never_used_again(gallery):
    ids = gallery.add(made_codes(3))
    gallery.remove(ids)
    assert gallery.add(made_codes(1))[0] > ids.max()
    gallery.compact()
    assert gallery.add(made_codes(1))[0] > ids.max() + 1


def test_labels_restrict_a_search(gallery):
    codes, labels = made_codes(200), [str(at % 40) for at in range(200)]
    ids = gallery.add(codes, label=labels)
    for wanted in (["3"], ["1", "2", "39"], [str(at) for at in range(30)], ["unknown"]):
        chosen = np.array([at for at, label in enumerate(labels) if label in wanted], int)
        query = made_codes(1, seed=5)[0]
        order, _ = nearest_by_sorting(codes[chosen], query, 4)
        for answer in (gallery.search(query, 4, label=wanted), gallery.search_many([query], 4, label=wanted)[0]):
            assert [hit.record.id for hit in answer.hits] == ids[chosen[order]].tolist()
            assert answer.n_searched == len(chosen)


def test_removed_codes_and_texts_are_in_no_file(folder_gallery):
    gallery = folder_gallery
    codes = made_codes(60)
    secret = "a name that nobody is to find again"
    thumbnails = [b"picture of " + bytes([at]) * 3000 for at in range(60)]
    ids = gallery.add(codes, name=[f"{secret} {at:03d}" for at in range(60)], thumbnails=thumbnails)
    removal = gallery.remove(ids[[3, 50]])
    assert removal.journal
    assert removal.rows == 2
    assert "Erased 2 records" in removal.describe()[0]
    everything = b"".join(path.read_bytes() for path in gallery.path.iterdir())
    for at in (3, 50):
        assert codes[at].tobytes() not in everything
        assert f"{secret} {at:03d}".encode() not in everything
        assert b"picture of " + bytes([at]) * 20 not in everything
    assert codes[4].tobytes() in everything
    assert f"{secret} 004".encode() in everything
    assert gallery.check().sound
    with pytest.raises(GalleryError, match="no record"):
        gallery.record(int(ids[3]))


def test_removing_an_unknown_record_changes_nothing(gallery):
    ids = gallery.add(made_codes(4))
    with pytest.raises(GalleryError, match="no record 99"):
        gallery.remove([int(ids[0]), 99])
    assert len(gallery) == 4


def test_replace_keeps_the_id_and_erases_the_old_code(gallery):
    codes = made_codes(40)
    ids = gallery.add(codes, label="a").tolist()
    new = made_codes(1, seed=3)[0]
    record = gallery.replace(ids[20], new, label="b")
    assert (record.id, record.label) == (ids[20], "b")
    assert np.array_equal(gallery.codes([ids[20]])[0], new)
    assert gallery.search(new, 1).hits[0].record.id == ids[20]
    assert gallery.replace(ids[1], note="only this").note == "only this"
    assert gallery.check().sound
    with pytest.raises(GalleryError, match="no colour"):
        gallery.replace(ids[0], colour="red")


def test_compaction_gives_up_erased_rows_and_keeps_the_rest(gallery):
    codes = made_codes(150)
    ids = gallery.add(codes).tolist()
    gallery.remove(ids[10:60])
    size = gallery.n_bytes()
    assert gallery.n_erased_rows() == 50
    assert gallery.compact() == 50
    assert gallery.n_bytes() <= size
    check_finds(gallery, ids[:10] + ids[60:], np.delete(codes, slice(10, 60), axis=0))
    assert gallery.compact() == 0
    assert gallery.check().sound


def similarity_model():
    rng = np.random.default_rng(0)
    similarity = Similarity(rng.standard_normal((LENGTH, 7)), rng.standard_normal(LENGTH), rng.uniform(size=LENGTH))
    return Metric.linear(np.zeros((0, 7)), np.arange(7), 7, similarity=similarity)


@pytest.mark.parametrize("kind", ["plain", "mirror", "similarity"])
def test_distances_are_those_of_the_model(place, kind):
    model = (
        similarity_model() if kind == "similarity" else made_model(mirror="distances" * (kind == "mirror") or "none")
    )
    X = np.random.default_rng(1).standard_normal((101, 7))
    codes = model.transform(X).astype(np.float32)
    if kind == "mirror":
        codes = np.column_stack([codes, np.abs(X[:, 0]).astype(np.float32)])
    codes, query = codes[1:], codes[:1]
    with Gallery.create(place("g"), model, layout=SMALL) as gallery:
        ids = gallery.add(codes, model=model)
        assert np.array_equal(gallery.codes(ids), codes)
        expected = model.code_distance(np.tile(query, (100, 1)).astype(np.float64), codes.astype(np.float64))
        order = np.argsort(expected)[:10]
        for answer in (gallery.search(query, 10, model=model), gallery.search_many(query, 10)[0]):
            assert [hit.record.id for hit in answer.hits] == ids[order].tolist()
            assert np.allclose([hit.distance for hit in answer.hits], expected[order], rtol=1e-12)
    if kind == "similarity":
        assert expected.min() < 0


def test_codes_of_another_model_are_refused(place):
    model, other = made_model(), made_model(seed=1)
    with Gallery.create(place("g"), model) as gallery:
        gallery.add(made_codes(2), model=model.with_threshold(3.0))
        with pytest.raises(GalleryError, match="distances between them mean nothing"):
            gallery.add(made_codes(2), model=other)
        with pytest.raises(GalleryError, match="of the model"):
            gallery.search(made_codes(1), model=other)
    with Gallery.open(place("g")) as opened:
        assert opened.model == model
        assert opened.fingerprint == model.fingerprint


@pytest.mark.parametrize("codes", [np.zeros((2, 4)), np.zeros((1, 2, 5)), [[np.nan] * 5], [[1e300] * 5]])
def test_codes_that_cannot_be_kept_are_refused(gallery, codes):
    with pytest.raises(GalleryError):
        gallery.add(codes)
    assert len(gallery) == 0


def test_texts_must_be_as_many_as_codes(gallery):
    with pytest.raises(GalleryError, match="one for each of the 3 codes; got 2"):
        gallery.add(made_codes(3), label=["a", "b"])


def test_what_is_there_is_not_made_again(gallery, place):
    assert Gallery.exists(place("g"))
    assert not Gallery.exists(place("other"))
    with pytest.raises(GalleryError, match="exists"):
        Gallery.create(place("g"), length=LENGTH)
    with pytest.raises(GalleryError, match="is not a gallery"):
        Gallery.open(place("other"))


def test_records_are_found_by_label_and_name_with_their_thumbnails(gallery):
    ids = gallery.add(
        made_codes(4), label=["a", "b", "a", None], name=["x", "x", "y", None], thumbnails=[b"1", None, b"3", None]
    )
    assert [record.id for record in gallery.find(label="a")] == [ids[0], ids[2]]
    assert [record.id for record in gallery.find(label="a", name="x")] == [ids[0]]
    assert gallery.labels() == {None: 1, "a": 2, "b": 1}
    assert gallery.names() == {"x", "y"}
    assert [gallery.thumbnail(int(at)) for at in ids] == [b"1", None, b"3", None]
    gallery.remove(ids[:1])
    assert gallery.thumbnail(int(ids[0])) is None


@pytest.mark.parametrize("kind", ["equal", "near", "huge", "tiny", "zeros"])
def test_codes_that_are_hard_to_tell_apart(gallery, kind):
    codes = made_codes(60)
    if kind == "equal":
        codes[10:50] = codes[10]
    elif kind == "near":
        codes[10:50] = codes[10]
        codes[10:50, 0] += np.arange(40, dtype=np.float32) * np.float32(1e-7)
    codes *= np.float32({"huge": 1e30, "tiny": 1e-30, "zeros": 0}.get(kind, 1))
    ids = gallery.add(codes).tolist()
    for query in (codes[10], codes[0], made_codes(1, seed=5)[0]):
        order, distances = nearest_by_sorting(codes, query, 12)
        answer = gallery.search(query, 12)
        assert [hit.record.id for hit in answer.hits] == [ids[at] for at in order]
        assert [hit.distance for hit in answer.hits] == distances.tolist()


def test_an_existing_folder_is_not_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(GalleryError, match="not an empty folder"):
        Gallery.create(tmp_path / "mine", length=3)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    Gallery.create(tmp_path / "new", length=3).close()
    with pytest.raises(GalleryError, match="is not a gallery"):
        Gallery.open(tmp_path / "mine")


@pytest.mark.parametrize("form", ["plain", "parquet"])
def test_export_and_import_give_the_same_gallery(gallery, place, tmp_path, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    codes = made_codes(60)
    names = ["", "\\", 'x "y", z\nw', *map(str, range(27))]
    gallery.add(codes[:30], label="a", name=names, added="2020-01-02T03:04:05+00:00")
    gallery.add(codes[30:], note="\N{GRINNING FACE}")
    gallery.remove([5])
    path = tmp_path / ("out.parquet" if form == "parquet" else "out")
    assert gallery.export(path) == 59
    with Gallery.create(place("h"), length=LENGTH, layout=SMALL) as other:
        ids = other.import_(path)
        was = gallery.find()
        now = other.records(ids)
        assert [{**record.to_json(), "id": 0} for record in was] == [{**record.to_json(), "id": 0} for record in now]
        assert np.array_equal(other.codes(ids), gallery.codes([record.id for record in was]))


def test_codes_of_another_model_are_not_imported(gallery, place, tmp_path):
    gallery.add(made_codes(3))
    gallery.export(tmp_path / "out")
    with Gallery.create(place("h"), made_model()) as other:
        with pytest.raises(GalleryError, match="of the model plain codes"):
            other.import_(tmp_path / "out")
        assert len(other) == 0


def test_tables_that_do_not_match_are_not_imported(gallery, tmp_path):
    gallery.add(made_codes(3))
    gallery.export(tmp_path / "out")
    np.save(tmp_path / "out.npy", made_codes(2))
    with pytest.raises(GalleryError, match="do not match"):
        gallery.import_(tmp_path / "out")
    (tmp_path / "out.csv").write_text("id,label\n1,a\n")
    with pytest.raises(GalleryError, match="has no column"):
        gallery.import_(tmp_path / "out")


def test_a_gallery_moves_to_another_model(place):
    old, new = made_model(), made_model(seed=1, n_components=3)
    first, second = made_codes(80), made_codes(80, seed=2, length=3)
    with Gallery.create(place("g"), old, layout=SMALL) as gallery:
        ids = gallery.add(first).tolist()
        with pytest.raises(GalleryError, match="no next model"):
            gallery.switch()

        def encode(records, unusable=(7,)):
            return [None if record.id in unusable else second[ids.index(record.id)] for record in records]

        done = gallery.reencode(new, encode, batch=13)
        assert (done.n_encoded, done.missing) == (79, (7,))
        assert gallery.search(first[0], 1).hits[0].record.id == ids[0]
        assert gallery.search(second[0], 1, model=gallery.next_model).hits[0].record.id == ids[0]
        compared = gallery.compare_models(k=5, n_queries=79)
        assert 0 <= compared.overlap < 1
        assert compared.changed
        with pytest.raises(GalleryError, match="1 records, such as 7"):
            gallery.switch()
        assert gallery.reencode(new, lambda records: encode(records, ())).n_encoded == 80
        late = gallery.add(made_codes(1, seed=4))
        gallery.remove(late)
        gallery.switch()
        assert gallery.fingerprint == new.fingerprint
        assert gallery.length == 3
        assert gallery.search(second[9], 1).hits[0].record.id == ids[9]
        assert gallery.check().sound
    with Gallery.open(place("g"), read_only=True) as opened:
        assert opened.model == new


def test_nothing_of_the_old_model_is_left_after_the_switch(tmp_path):
    codes = made_codes(40)
    with Gallery.create(tmp_path / "g", made_model(), layout=SMALL) as gallery:
        gallery.add(codes)
        gallery.reencode(made_model(seed=1), lambda records: list(made_codes(len(records), seed=2)))
        gallery.switch()
        assert len(list(gallery.path.glob("*.safetensors"))) == 1
    assert codes[4].tobytes() not in b"".join(path.read_bytes() for path in (tmp_path / "g").iterdir())


def test_a_move_to_another_model_can_be_given_up(place):
    with Gallery.create(place("g"), made_model(), layout=SMALL) as gallery:
        gallery.add(made_codes(20))
        gallery.reencode(made_model(seed=1), lambda records: list(made_codes(len(records))))
        with pytest.raises(GalleryError, match="being moved to another model"):
            gallery.reencode(made_model(seed=2), lambda records: [None] * len(records))
        gallery.abandon()
        assert gallery.next_model is None
        assert gallery.search(made_codes(1)[0], 1).n_searched == 20
        assert gallery.check().sound
