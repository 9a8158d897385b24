"""All descriptors of one 110 x 150 picture: 13,260 covariance descriptors and 13,260 soft LBP histograms, on one core.

The picture is a photograph-like random one, in memory, cropped and smoothed. Beside the whole, the share of the matrix
logarithms, against the same logarithms by LAPACK's eigendecomposition (numpy, in a batch) in the same run.
"""

from functools import partial

import numpy as np
from harness import Report, best_of, parser
from scipy.ndimage import gaussian_filter
from threadpoolctl import threadpool_limits

from samekind.images.covariance import Covariance
from samekind.images.regions import enumerate_regions
from samekind.images.slbp import SoftLBP
from samekind.kernels.logarithm import symmetric_logarithms

TARGET_MS, AIM_MS = 250, 120
HEIGHT, WIDTH = 150, 110


def picture() -> np.ndarray:
    rng = np.random.default_rng(0)
    layers = [scale * gaussian_filter(rng.standard_normal((HEIGHT, WIDTH)), scale) for scale in (1, 3, 9, 20)]
    summed = sum(layers)
    return ((summed - summed.min()) / np.ptp(summed)).astype(np.float32)


def covariances(n: int) -> np.ndarray:
    """Random ones of 9 features, as matrices."""
    samples = np.random.default_rng(1).standard_normal((n, 9, 30)).astype(np.float32)
    return samples @ samples.transpose(0, 2, 1) / 30


def by_lapack(C: np.ndarray) -> np.ndarray:
    eigenvalues, V = np.linalg.eigh(C)
    return (V * np.log(eigenvalues)[:, None]) @ V.transpose(0, 2, 1)


def main() -> None:
    given = parser(__doc__).parse_args()
    report, regions, grey = Report("descriptors"), enumerate_regions(), picture()
    C = covariances(len(regions))
    triangles = C[:, *np.triu_indices(9)]
    cov, slbp = partial(Covariance().describe, grey, regions), partial(SoftLBP().describe, grey, regions)
    tasks = [cov, slbp, partial(symmetric_logarithms, triangles), partial(by_lapack, C)]
    with threadpool_limits(1):
        best_of(tasks, 1)  # compiles
        seconds = best_of(tasks, 5 if given.quick else 30)
    cov_ms, slbp_ms, logs_ms, lapack_ms = (1e3 * each for each in seconds)
    print(f"{len(regions):,} regions, one core, best of several")
    print(f"covariance  {cov_ms:6.1f} ms   ({1e3 * cov_ms / len(regions):.2f} us a region)")
    print(f"soft LBP    {slbp_ms:6.1f} ms   ({1e3 * slbp_ms / len(regions):.2f} us a region)")
    print(f"logarithms  {logs_ms:6.1f} ms   ({1e3 * logs_ms / len(regions):.2f} us each; LAPACK {lapack_ms:.1f} ms)")
    print(f"(aim: {AIM_MS} ms for both families)")
    report.hold("all_ms", cov_ms + slbp_ms, at_most=TARGET_MS)
    report.note("cov_ms", cov_ms)
    report.note("slbp_ms", slbp_ms)
    report.note("logarithms_over_lapack", logs_ms / lapack_ms)
    report.end()


if __name__ == "__main__":
    main()
