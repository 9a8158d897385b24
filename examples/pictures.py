"""Pictures in a folder per label: learn on most labels, tell the others apart.

    python examples/pictures.py FOLDER STORE

Extracts descriptors of 300 regions from the middle of each picture (110 x 150 pixels), learns codes of 60 numbers on
four fifths of the labels with two pictures or more, and verifies pairs of pictures of the other labels, from their
files; a picture and its mirror image count as the same. STORE is a new folder, or one from an earlier run.
"""

import sys

import numpy as np

from samekind import EnsembleMetric, Extractor, extract, list_images
from samekind.evaluation import label_pairs, verify


def main(folder: str, place: str) -> None:
    store = extract(list_images(folder, labelled=True), place, Extractor.over(n_regions=300))
    print(store, f"left out: {len(store.skipped)}", f"under several names: {store.duplicates()}", sep="\n")
    labels, counts = np.unique(store.labels, return_counts=True)
    several = np.random.default_rng(0).permutation(labels[counts >= 2])
    unseen = np.flatnonzero(np.isin(store.labels, several[: len(several) // 5]))
    rows = np.flatnonzero(np.isin(store.labels, several[len(several) // 5 :]))
    model = EnsembleMetric(max_groups=20, n_components=60, mirror="mean", verbose=1)
    metric = model.fit(store, store.labels, rows=rows).metric_
    print(f"chosen first: {', '.join(model.selected_group_names_[:5])}")
    codes = metric.encode([f"{folder}/{name}" for name in store.image_ids[unseen]])
    pairs, same = label_pairs(store.labels[unseen])
    distances = metric.code_distance(codes[pairs[:, 0]], codes[pairs[:, 1]])
    print(f"EER on {len(unseen)} pictures of labels never seen: {verify(distances, same).eer:.3f}")
    right = np.mean((distances <= metric.threshold) == same)
    print(f"right at the threshold that the model brings, {metric.threshold:.3g}: {right:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
