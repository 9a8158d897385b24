from types import SimpleNamespace

import pytest

from samekind.lfw.study import Study
from tests.lfw import small


@pytest.fixture(scope="session")
def lfw(tmp_path_factory):
    """Pictures and protocol, and a study of both views that ran through."""
    home = tmp_path_factory.mktemp("lfw")
    protocol, images = small.write_protocol(home / "protocol"), small.write_images(home / "images")
    watch = small.Recorder()
    study = Study(images, protocol, home / "work", small.SETTINGS, watch=watch)
    view2 = study.view2()
    view1, study.watch = study.view1(), small.Recorder()
    return SimpleNamespace(
        home=home,
        images=images,
        protocol=protocol,
        work=home / "work",
        store=home / "work" / "store",
        watch=watch,
        study=study,
        view1=view1,
        view2=view2,
    )
