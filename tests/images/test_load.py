"""Pictures of every kind come out with exactly the grey values that were put in; broken files say so."""

import io
import pickle
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from samekind.images import load, netpbm
from samekind.images.align import picture_size
from samekind.images.load import ImageError, LoadedImage, load_image

LFW_A = Path(__file__).parents[3] / "shared" / "data" / "lfw-a" / "images"
GREY = np.array([0.299, 0.587, 0.114])


def _random(shape, largest, seed=0):
    values = np.random.default_rng(seed).integers(0, largest, shape, endpoint=True)
    values.flat[:2] = 0, largest
    return values


def _write(path, image, **options):
    image.save(path, **options)
    return load_image(path)


def _jpeg_bytes(size=(64, 48), **options):
    waves = np.sin(np.arange(size[1])[:, None] / 5) * np.cos(np.arange(size[0])[None] / 7)
    noise = np.random.default_rng(1).normal(0, 12, size[::-1])
    file = io.BytesIO()
    Image.fromarray(np.clip(128 + 90 * waves + noise, 0, 255).astype(np.uint8)).save(file, "JPEG", **options)
    return file.getvalue()


def _try(path, data):
    """The loaded image, or the error; anything else is a crash."""
    path.write_bytes(data)
    try:
        return load_image(path)
    except ImageError as error:
        return error


class TestEveryKind:
    def test_grey_of_8_bits(self, tmp_path):
        values = _random((7, 5), 255)
        for name in ("a.png", "a.pgm"):
            loaded = _write(tmp_path / name, Image.fromarray(values.astype(np.uint8)))
            assert loaded.grey.dtype == np.float32
            assert loaded.notes == ()
            np.testing.assert_allclose(loaded.grey, values / 255, atol=1e-7)

    def test_grey_of_16_bits(self, tmp_path):
        values = _random((7, 5), 65535)
        for name in ("a.png", "a.pgm"):
            cv2.imwrite(str(tmp_path / name), values.astype(np.uint16))
            np.testing.assert_allclose(load_image(tmp_path / name).grey, values / 65535, atol=1e-7)

    @pytest.mark.parametrize("name", ["a.png", "a.ppm"])
    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
    def test_colours_of_8_and_16_bits(self, tmp_path, name, dtype):
        largest = np.iinfo(dtype).max
        rgb = _random((7, 5, 3), largest)
        cv2.imwrite(str(tmp_path / name), rgb[..., ::-1].astype(dtype))
        np.testing.assert_allclose(load_image(tmp_path / name).grey, rgb @ GREY / largest, atol=2e-7)

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
    def test_transparency_is_ignored(self, tmp_path, dtype):
        largest = np.iinfo(dtype).max
        rgba = _random((7, 5, 4), largest)
        cv2.imwrite(str(tmp_path / "a.png"), rgba[..., [2, 1, 0, 3]].astype(dtype))
        np.testing.assert_allclose(load_image(tmp_path / "a.png").grey, rgba[..., :3] @ GREY / largest, atol=2e-7)

    def test_grey_with_transparency(self, tmp_path):
        values = _random((7, 5, 2), 255).astype(np.uint8)
        loaded = _write(tmp_path / "a.png", Image.fromarray(values, "LA"))
        np.testing.assert_allclose(loaded.grey, values[..., 0] / 255, atol=1e-7)

    def test_grey_of_16_bits_with_transparency(self, tmp_path):
        values = _random((4, 3, 2), 65535).astype(">u2")
        rows = b"".join(b"\0" + row.tobytes() for row in values)
        (tmp_path / "a.png").write_bytes(_png((3, 4), depth=16, kind=4, rows=rows))
        np.testing.assert_allclose(load_image(tmp_path / "a.png").grey, values[..., 0] / 65535, atol=1e-7)

    @pytest.mark.parametrize("options", [{}, {"transparency": 3}])
    def test_palette(self, tmp_path, options):
        image = Image.fromarray(_random((20, 30, 3), 255).astype(np.uint8)).quantize(16)
        expected = np.asarray(image.convert("RGB")) @ GREY / 255
        np.testing.assert_allclose(_write(tmp_path / "a.png", image, **options).grey, expected, atol=2e-7)

    def test_one_bit(self, tmp_path):
        values = _random((6, 11), 1).astype(bool)
        for name in ("a.png", "a.ppm"):  # the second is a P4 bitmap under another name
            loaded = _write(tmp_path / name, Image.fromarray(values))
            np.testing.assert_array_equal(loaded.grey, values.astype(np.float32))

    def test_white_is_one_and_black_zero(self, tmp_path):
        for value in (0, 255):
            loaded = _write(tmp_path / "a.png", Image.new("RGB", (4, 4), (value,) * 3))
            assert (loaded.grey == value / 255).all()

    @pytest.mark.parametrize("largest", [1, 15, 100, 255, 256, 1023, 65535])
    @pytest.mark.parametrize("magic", ["P2", "P3", "P5", "P6"])
    def test_netpbm_is_scaled_by_its_own_largest_value(self, tmp_path, magic, largest):
        colours = 3 if magic in ("P3", "P6") else 1
        values = _random((4, 3, colours), largest)
        header = f"{magic}\n# by hand\n3 4\n{largest}\n".encode()
        plain = " ".join(map(str, values.ravel())).encode()
        raw = values.astype(">u2" if largest > 255 else "u1").tobytes()
        (tmp_path / "a.pgm").write_bytes(header + (plain if magic in ("P2", "P3") else raw))
        expected = (values @ GREY if colours == 3 else values[..., 0]) / largest
        np.testing.assert_allclose(load_image(tmp_path / "a.pgm").grey, expected, atol=2e-7)

    @pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
    def test_a_comment_of_netpbm_ends_with_its_line(self, tmp_path, end):
        """The size that is checked is the size that is decoded."""
        path = tmp_path / "a.pgm"
        path.write_bytes(b"P5" + end + b"# 9 9" + end + b"3 2" + end + b"255\n" + bytes(range(6)))
        np.testing.assert_allclose(load_image(path).grey, np.arange(6).reshape(2, 3) / 255, atol=1e-7)
        assert picture_size(path) == (3, 2)
        path.write_bytes(b"P5 1 1 #x\r99999 99999 255\n" + bytes(6))
        with pytest.raises(ImageError, match="the largest value is 99999"):
            load_image(path)

    def test_plain_values_of_any_length_and_across_parts(self, tmp_path):
        values = _random((20, 30), 65535)
        words = [b"%d" % value if place % 3 else b"%09d" % value for place, value in enumerate(values.ravel())]
        header, raster = b"P2 30 20 65535\n", b"\n \t".join(words)
        (tmp_path / "a.pgm").write_bytes(header + raster)
        np.testing.assert_allclose(load_image(tmp_path / "a.pgm").grey, values / 65535, atol=1e-7)
        for at_once in (1, 50):
            found = netpbm._plain(memoryview(raster), netpbm.header_of(header), at_once)
            np.testing.assert_array_equal(found, values.ravel())

    def test_plain_bitmaps(self, tmp_path):
        (tmp_path / "a.pbm").write_bytes(b"P1 # bits\n3 2\n1 0 1\n010")
        np.testing.assert_array_equal(load_image(tmp_path / "a.pbm").grey, [[0, 1, 0], [1, 0, 1]])

    @pytest.mark.parametrize("name", ["a.jpg", "a.png"])
    def test_large_pictures_are_converted_in_strips(self, tmp_path, name):
        rgb = cv2.GaussianBlur(_random((61, 80, 3), 255).astype(np.uint8), (9, 9), 2)
        for image in (Image.fromarray(rgb), Image.fromarray(rgb).convert("CMYK" if name == "a.jpg" else "RGBA")):
            image.save(tmp_path / name)
            whole = load_image(tmp_path / name)
            assert whole.notes == ()
            data = (tmp_path / name).read_bytes()
            with load._opened_jpeg(data) if name == "a.jpg" else Image.open(tmp_path / name) as opened:
                np.testing.assert_array_equal(load._grey(opened, strip=1000), whole.grey)
            if name == "a.jpg":
                with_filler = load._with_filler(data, load._data_ends(data))
                assert load._sound_rows(with_filler, whole.grey, strip=1000) == 61

    def test_deep_png_with_odd_notes_is_silent(self, tmp_path, capfd):
        """libpng would complain about them on stderr."""
        values = _random((5, 7, 3), 65535)
        cv2.imwrite(str(tmp_path / "a.png"), values[..., ::-1].astype(np.uint16))
        data = (tmp_path / "a.png").read_bytes()
        odd = 2 * _chunk(b"gAMA", bytes(4)) + _chunk(b"pHYs", b"\xff" * 9)
        (tmp_path / "b.png").write_bytes(data[:33] + odd + data[33:])
        np.testing.assert_allclose(load_image(tmp_path / "b.png").grey, values @ GREY / 65535, atol=2e-7)
        assert capfd.readouterr() == ("", "")

    def test_jpeg_is_what_opencv_decodes(self, tmp_path):
        rgb = cv2.GaussianBlur(_random((60, 80, 3), 255).astype(np.uint8), (9, 9), 2)
        for subsampling in (0, 2):
            loaded = _write(tmp_path / "a.jpg", Image.fromarray(rgb), quality=90, subsampling=subsampling)
            expected = cv2.imread(str(tmp_path / "a.jpg"), cv2.IMREAD_GRAYSCALE)
            np.testing.assert_allclose(loaded.grey, expected / 255, atol=1e-7)
            np.testing.assert_allclose(loaded.grey, rgb @ GREY / 255, atol=0.03)

    def test_cmyk_jpeg(self, tmp_path):
        rgb = np.full((32, 32, 3), (200, 100, 50), np.uint8)
        loaded = _write(tmp_path / "a.jpg", Image.fromarray(rgb).convert("CMYK"), quality=95)
        np.testing.assert_allclose(loaded.grey, np.array([200, 100, 50]) @ GREY / 255, atol=0.02)

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("kind", ["png", "jpg"])
    def test_exif_orientation(self, tmp_path, orientation, kind):
        values = np.zeros((16, 24), np.uint8)
        values[:8, :8], values[8:, 8:] = 255, 100
        exif = Image.Exif()
        exif[0x0112] = orientation
        loaded = _write(tmp_path / f"a.{kind}", Image.fromarray(values), exif=exif)
        with Image.open(tmp_path / f"a.{kind}") as image:
            expected = np.asarray(ImageOps.exif_transpose(image))
        np.testing.assert_allclose(loaded.grey, expected / 255, atol=1e-7)
        assert loaded.grey.flags.c_contiguous

    def test_the_name_does_not_matter(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(_jpeg_bytes())
        assert load_image(str(tmp_path / "a.txt")).grey.shape == (48, 64)


class TestUnusable:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "empty"),
            (b"hello, I am text", "not a JPEG, PNG, PBM, PGM or PPM"),
            (b"GIF89a" + bytes(100), "not a JPEG, PNG, PBM, PGM or PPM"),
            (b"\x89PNG\r\n\x1a\n" + bytes(50), "broken header"),
            (b"\xff\xd8\xff\xe0\x00\x10JFIF", "broken header"),
            (b"P5\n4 4\n255\n" + bytes(10), "10 of 16 bytes"),
            (b"P2\n2 2\n255\n1 2 3", "3 of 4 values"),
            (b"P2\n2 2\n255\n1 2 x 4", "not all of its values are numbers"),
            (b"P5\n2 2\n100\n" + b"\x65" * 4, "above its own largest value 100"),
            (b"P5\n2 2\n70000\n" + bytes(8), "header"),
            (b"P5\n0 2\n255\n", "header|no pixels"),
            (b"P2\n2 2\n255\n1 2 3 99999999999999999999999", "one of its values has 23 digits"),
            (b"P2\n2 2\n255\n1 2 3 -392", "not all of its values are numbers"),
            (b"P2\n2 2\n255\n1 2 3 1_0", "not all of its values are numbers"),
            (b"P2\n2 2\n255\n1 2 3 +4", "not all of its values are numbers"),
            (b"P2\n2 2\n255\n1 2 3 4.5", "not all of its values are numbers"),
            (b"P2\n2 2\n65535\n1 2 3 65536", "it holds 65536"),
            (b"P2\n300 300\n255\n" + b"1 " * 89_999 + b"9" * 90_000, "one of its values has 90,000 digits"),
            (b"P1\n2 2\n0 1 2 1", "not all of its values are numbers"),
            (b"P1\n2 2\n0 1 1", "3 of 4 values"),
            (b"P4\n9 2\n\1\1\1", "3 of 4 bytes"),
            (b"P5\n" + b"#" + b"x" * 70_000 + b"\n2 2\n255\n" + bytes(4), "broken header"),
        ],
    )
    def test_says_why(self, tmp_path, content, reason):
        path = tmp_path / "a.jpg"
        path.write_bytes(content)
        with pytest.raises(ImageError, match=reason) as caught:
            load_image(path)
        assert caught.value.path == str(path)
        assert str(caught.value) == f"{path}: {caught.value.reason}"

    def test_absent_and_folder(self, tmp_path):
        with pytest.raises(ImageError, match="no such file"):
            load_image(tmp_path / "a.jpg")
        with pytest.raises(ImageError, match="is a folder"):
            load_image(tmp_path)

    def test_too_large_is_refused_before_decoding(self, tmp_path):
        # A header alone: 40,000 x 40,000 pixels, and nothing that could be decoded.
        (tmp_path / "a.png").write_bytes(_png((40_000, 40_000), depth=8, kind=0, rows=b""))
        with pytest.raises(ImageError, match=r"too large: 40000 x 40000 = 1,600,000,000 pixels.*max_pixels"):
            load_image(tmp_path / "a.png")

    def test_max_pixels_is_the_limit(self, tmp_path):
        Image.new("L", (10, 10)).save(tmp_path / "a.png")
        assert load_image(tmp_path / "a.png", max_pixels=100).grey.shape == (10, 10)
        with pytest.raises(ImageError, match="too large"):
            load_image(tmp_path / "a.png", max_pixels=99)

    def test_absurd_file_size_is_refused_before_reading(self, tmp_path):
        with open(tmp_path / "a.pgm", "wb") as file:
            file.write(b"P5\n4 4\n255\n" + bytes(16))
            file.truncate(10**12)  # sparse: it takes no room
        with pytest.raises(ImageError, match="1,000,000,000,000 bytes"):
            load_image(tmp_path / "a.pgm")

    def test_a_flood_of_restart_markers_is_refused(self, tmp_path):
        data = _jpeg_bytes(restart_marker_blocks=1)
        assert _try(tmp_path / "a.jpg", data).notes == ()
        flooded = data[:-2] + b"\xff\xd0" * 2_500_000 + data[-2:]
        assert "more scans or restart markers" in _try(tmp_path / "a.jpg", flooded).reason

    def test_a_flood_of_scans_is_refused(self, tmp_path):
        data = _jpeg_bytes()
        scan = data[data.index(b"\xff\xda") : -2]
        assert "more scans or restart markers" in _try(tmp_path / "a.jpg", data[:-2] + 200 * scan + data[-2:]).reason

    def test_many_restart_markers_get_short_fillers(self):
        data = bytes(5000)
        assert len(load._with_filler(data, range(0, 5000, 2), filler_bytes=0)) <= 3 * len(data)

    def test_the_error_can_be_pickled(self):
        error = pickle.loads(pickle.dumps(ImageError("a.jpg", "is odd")))
        assert (error.path, error.reason, str(error)) == ("a.jpg", "is odd", "a.jpg: is odd")


class TestDamaged:
    @pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}, {"quality": 99}])
    def test_a_sound_jpeg_has_no_note(self, tmp_path, options):
        assert _try(tmp_path / "a.jpg", _jpeg_bytes(**options)).notes == ()

    def test_a_jpeg_cut_anywhere_has_a_note_or_an_error(self, tmp_path):
        data = _jpeg_bytes()
        whole = _try(tmp_path / "a.jpg", data).grey
        used = 0
        for length in range(1, len(data) - 1, 7):
            result = _try(tmp_path / "a.jpg", data[:length])
            assert isinstance(result, ImageError) or "damaged" in result.notes[0]
            used += isinstance(result, LoadedImage)
        half = _try(tmp_path / "a.jpg", data[: len(data) // 2])
        assert used > 80
        assert "of 48 rows are wrong" in half.notes[0]
        np.testing.assert_array_equal(half.grey[:8], whole[:8])

    def test_data_that_end_early_before_an_end_marker_have_a_note(self, tmp_path):
        data = _jpeg_bytes()
        whole = _try(tmp_path / "a.jpg", data).grey
        start = data.index(b"\xff\xda") + 14
        for length in range(start, len(data) - 2, 11):
            result = _try(tmp_path / "a.jpg", data[:length] + b"\xff\xd9")
            lost = isinstance(result, ImageError) or not np.array_equal(result.grey, whole)
            assert lost == (isinstance(result, ImageError) or result.notes != ())

    def test_the_note_counts_the_wrong_rows(self, tmp_path):
        data = _jpeg_bytes()
        whole = _try(tmp_path / "a.jpg", data).grey
        cut = _try(tmp_path / "a.jpg", data[: len(data) * 2 // 3] + b"\xff\xd9")
        wrong = 48 - int(np.flatnonzero((cut.grey != whole).any(axis=1))[0])
        assert f"; {wrong} of 48 rows" in cut.notes[0]

    @pytest.mark.parametrize("name", ["a.png", "a.pgm"])
    def test_a_png_or_pgm_cut_anywhere_is_an_error(self, tmp_path, name):
        Image.fromarray(_random((30, 40), 255).astype(np.uint8)).save(tmp_path / name)
        data = (tmp_path / name).read_bytes()
        last = len(data) - (16 if name == "a.png" else 1)  # a PNG whose end chunk alone is missing is whole
        for length in range(0, last, 13):
            assert isinstance(_try(tmp_path / name, data[:length]), ImageError)

    def test_opencv_would_have_been_loud(self, tmp_path, capfd):
        _try(tmp_path / "a.jpg", _jpeg_bytes()[:-500] + b"\xff\xd9")
        Image.fromarray(_random((30, 40), 255).astype(np.uint8)).save(tmp_path / "a.png")
        _try(tmp_path / "b.png", (tmp_path / "a.png").read_bytes()[:-200])
        assert capfd.readouterr() == ("", "")

    def test_a_jpeg_that_ends_where_a_marker_begins(self, tmp_path):
        data = _jpeg_bytes()
        scan = data.index(b"\xff\xda")
        assert isinstance(_try(tmp_path / "a.jpg", data[: scan + 1]), ImageError)

    @pytest.mark.parametrize("place", [26, 27, 28])
    def test_a_broken_header_of_a_deep_png_is_silent(self, tmp_path, capfd, place):
        """Compression, filter or interlacing that there is none of: libpng would complain on stderr."""
        cv2.imwrite(str(tmp_path / "a.png"), _random((5, 7, 3), 65535).astype(np.uint16))
        data = (tmp_path / "a.png").read_bytes()
        header = bytearray(data[16:29])
        header[place - 16] = 7
        result = _try(tmp_path / "b.png", data[:8] + _chunk(b"IHDR", bytes(header)) + data[33:])
        assert isinstance(result, ImageError)
        assert capfd.readouterr() == ("", "")

    @given(data=st.data())
    def test_changed_bytes_never_crash(self, tmp_path_factory, data):
        kind = data.draw(st.sampled_from(["JPEG", "PNG", "PPM"]))
        file = io.BytesIO()
        Image.fromarray(_random((24, 24, 3), 255).astype(np.uint8)).save(file, kind)
        content = bytearray(file.getvalue())
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, min(len(content), 400) - 1))] = data.draw(st.integers(0, 255))
        result = _try(tmp_path_factory.getbasetemp() / "changed.bin", bytes(content))
        if isinstance(result, LoadedImage):
            assert 0 <= result.grey.min() <= result.grey.max() <= 1

    @pytest.mark.skipif(not LFW_A.is_dir(), reason="no ../shared/data/lfw-a beside the repository")
    def test_the_damaged_file_of_lfw_a(self):
        people = ["Franz_Muentefering", "Carlos_Beltran", "Aaron_Eckhart"]
        notes = [load_image(LFW_A / name / f"{name}_0001.jpg").notes for name in people]
        assert notes[1:] == [(), ()]
        assert "2 of 250 rows" in notes[0][0]


def test_threads_load_the_same(tmp_path):
    paths = []
    for seed in range(8):
        paths.append(tmp_path / f"{seed}.{'png' if seed % 2 else 'jpg'}")
        Image.fromarray(_random((50, 60, 3), 255, seed).astype(np.uint8)).save(paths[-1])
    alone = [load_image(path).grey for path in paths]
    with ThreadPoolExecutor(4) as pool:
        for each, together in zip(alone * 5, pool.map(load_image, paths * 5), strict=True):
            np.testing.assert_array_equal(each, together.grey)


def _chunk(name, content):
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _png(size, *, depth, kind, rows):
    header = struct.pack(">IIBBBBB", *size, depth, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
