"""Feature groups of unequal size: handwritten digits described in six ways (UCI's multiple features).

    python examples/groups.py FOLDER

FOLDER holds mfeat-fac.csv, mfeat-fou.csv, mfeat-kar.csv, mfeat-mor.csv, mfeat-pix.csv and mfeat-zer.csv: a header, then
features with the label last. Learns which descriptions matter, on half of the digits, and finds the others by 3-NN.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from samekind import EnsembleMetric
from samekind.evaluation import knn_error, verify_codes

NAMES = ["fac", "fou", "kar", "mor", "pix", "zer"]


def main(folder: Path) -> None:
    tables = {name: np.loadtxt(folder / f"mfeat-{name}.csv", delimiter=",", skiprows=1) for name in NAMES}
    y = tables["fac"][:, -1].astype(int)
    ends = np.cumsum([tables[name].shape[1] - 1 for name in NAMES])
    groups = {name: slice(end - tables[name].shape[1] + 1, end) for name, end in zip(NAMES, ends, strict=True)}
    X = np.hstack([tables[name][:, :-1] for name in NAMES])
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
    X = (X - X[train].mean(axis=0)) / (X[train].std(axis=0) + 1e-9)
    print(f"plain Euclidean distance: 3-NN error {knn_error(X[test], y[test]):.4f}")
    # The classes to be found are those learned from: settings need not be chosen on classes left out (cv=None).
    model = EnsembleMetric(groups, loss="triplet", max_groups=4, n_components=12, cv=None, verbose=1)
    model.set_params(selection__tol=0.05, joint__target="zero").fit(X[train], y[train])
    codes = model.transform(X[test])
    print(f"chosen, in order: {', '.join(model.selected_group_names_)}")
    eer = verify_codes(codes, y[test]).eer
    print(f"{codes.shape[1]} numbers: 3-NN error {knn_error(codes, y[test]):.4f}, EER {eer:.4f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
