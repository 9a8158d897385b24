from types import SimpleNamespace

import pytest

from samekind.lfw.experiment import Experiment
from tests.lfw import small


@pytest.fixture(scope="session")
def lfw(tmp_path_factory):
    """Pictures and protocol, and an experiment of both views that ran through."""
    home = tmp_path_factory.mktemp("lfw")
    protocol, images = small.write_protocol(home / "protocol"), small.write_images(home / "images")
    reporter = small.Recorder()
    experiment = Experiment(images, protocol, home / "work", small.SETTINGS, reporter=reporter)
    view2 = experiment.view2()
    view1, experiment.reporter = experiment.view1(), small.Recorder()
    return SimpleNamespace(
        home=home,
        images=images,
        protocol=protocol,
        work=home / "work",
        store=home / "work" / "store",
        reporter=reporter,
        experiment=experiment,
        view1=view1,
        view2=view2,
    )
