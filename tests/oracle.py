"""The paper in literal loops: slow, plain, and written without a look at the package.

Rows of X are samples. Everything is float64 and one pair (i, j) or one triplet (i, j, k) at a time; sums that could
overflow stay in log space. Matrices come as lists of lists or as arrays, and go out as arrays.
"""

import math

import numpy as np

# -- distances (section 3) --------------------------------------------------------------------------------------------


def squared_distance(x, y, A):
    """`d = (x - y)^T A (x - y)`"""
    total = 0.0
    for a in range(len(x)):
        for b in range(len(x)):
            total += (float(x[a]) - float(y[a])) * float(A[a][b]) * (float(x[b]) - float(y[b]))
    return total


def distances(X, A):
    D = np.zeros((len(X), len(X)))
    for i in range(len(X)):
        for j in range(len(X)):
            if i != j:
                D[i, j] = squared_distance(X[i], X[j], A)
    return D


def pi(labels, i, j):
    """+1 for the same class, -1 for two classes, 0 for a sample and itself."""
    if i == j:
        return 0
    return 1 if labels[i] == labels[j] else -1


def softplus(z):
    """`ln(1 + e^z)`"""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def log_sum_exp(numbers):
    if not numbers:
        return -math.inf
    top = max(numbers)
    return top + math.log(sum(math.exp(number - top) for number in numbers))


# -- pairwise constraints (3.3) ---------------------------------------------------------------------------------------


class Pairwise:
    """Eq. 3 and 5, with pi_ij where Eq. 3's first line forgets it, and self pairs left out."""

    def __init__(self, labels, threshold, balance):
        self.labels = list(labels)
        self.threshold = threshold
        self.balance = balance

    def share(self, i, kind):
        """c_ij: 1/N^2 to the letter; or half of the weight to each kind of pair, or to the samples in equal parts."""
        n = len(self.labels)
        if self.balance == "literal":
            return 1 / n**2
        alike = [sum(pi(self.labels, a, b) == kind for b in range(n)) for a in range(n)]
        if self.balance == "samples" and kind == 1:
            return 0.5 / sum(count > 0 for count in alike) / alike[i]
        return 0.5 / sum(alike)

    def value(self, D):
        total = 0.0
        for i in range(len(D)):
            for j in range(len(D)):
                kind = pi(self.labels, i, j)
                if kind != 0:
                    total += self.share(i, kind) * softplus(kind * (D[i][j] - self.threshold))
        return total / math.log(2)

    def weights(self, D):
        W = np.zeros((len(D), len(D)))
        for i in range(len(D)):
            for j in range(len(D)):
                kind = pi(self.labels, i, j)
                if kind != 0:
                    W[i, j] = self.share(i, kind) * kind * sigmoid(kind * (D[i][j] - self.threshold)) / math.log(2)
        return W


# -- triplet constraints (3.4) ----------------------------------------------------------------------------------------


def target_neighbors(X, labels, k):
    """For each sample the k nearest of its class, nearest first, equal distances by rising index."""
    identity = np.eye(len(X[0]))
    chosen = []
    for i in range(len(X)):
        candidates = []
        for j in range(len(X)):
            if pi(labels, i, j) == 1:
                candidates.append((squared_distance(X[i], X[j], identity), j))
        chosen.append([j for _, j in sorted(candidates)[:k]])
    return chosen


class Triplet:
    """Eq. 9 and 10 over the samples that have a target neighbour, and the gradient of that."""

    def __init__(self, labels, beta, neighbors=None):
        n = len(labels)
        self.beta = beta
        self.others = [[k for k in range(n) if pi(labels, i, k) == -1] for i in range(n)]
        same = [[j for j in range(n) if pi(labels, i, j) == 1] for i in range(n)]
        self.targets = same if neighbors is None else neighbors
        self.anchors = [i for i in range(n) if self.targets[i]]

    def log_phi(self, D, i):
        """`ln phi_i^+` and `ln phi_i^-`"""
        plus = log_sum_exp([D[i][j] for j in self.targets[i]]) - math.log(len(self.targets[i]))
        minus = log_sum_exp([-D[i][k] for k in self.others[i]]) - math.log(len(self.others[i]))
        return plus, minus

    def z(self, D, i):
        return math.log(self.beta) + sum(self.log_phi(D, i))

    def value(self, D):
        total = 0.0
        for i in self.anchors:
            total += softplus(self.z(D, i))
        return total / (len(self.anchors) * math.log1p(self.beta))

    def value_from_triplets(self, D):
        """Eq. 9's first line, the mean inside psi taken one triplet at a time; small distances only."""
        total = 0.0
        for i in self.anchors:
            mean = 0.0
            for j in self.targets[i]:
                for k in self.others[i]:
                    mean += math.exp(D[i][j] - D[i][k]) / (len(self.targets[i]) * len(self.others[i]))
            total += math.log(1 + self.beta * mean) / math.log(1 + self.beta)
        return total / len(self.anchors)

    def weights(self, D):
        W = np.zeros((len(D), len(D)))
        for i in self.anchors:
            share = sigmoid(self.z(D, i)) / (len(self.anchors) * math.log1p(self.beta))
            for j in self.targets[i]:
                W[i, j] = share * math.exp(D[i][j] - log_sum_exp([D[i][m] for m in self.targets[i]]))
            for k in self.others[i]:
                W[i, k] = -share * math.exp(-D[i][k] - log_sum_exp([-D[i][m] for m in self.others[i]]))
        return W

    def weights_as_printed_in_eq_11(self, D):
        """Wrong: phi+ and phi- have changed places. Small distances only."""
        W = np.zeros((len(D), len(D)))
        for i in self.anchors:
            plus, minus = (math.exp(log_phi) for log_phi in self.log_phi(D, i))
            below = len(self.anchors) * math.log(1 + self.beta) * (1 + self.beta * plus * minus)
            for j in self.targets[i]:
                W[i, j] = self.beta * plus * math.exp(D[i][j]) / (len(self.targets[i]) * below)
            for k in self.others[i]:
                W[i, k] = -self.beta * minus * math.exp(-D[i][k]) / (len(self.others[i]) * below)
        return W


# -- gradients (Eq. 4 and 6) ------------------------------------------------------------------------------------------


def gradient(X, W):
    """Eq. 4: `sum_ij w_ij (x_i - x_j)(x_i - x_j)^T`"""
    n, width = len(X), len(X[0])
    G = np.zeros((width, width))
    for i in range(n):
        for j in range(n):
            for a in range(width):
                for b in range(width):
                    G[a, b] += W[i][j] * (float(X[i][a]) - float(X[j][a])) * (float(X[i][b]) - float(X[j][b]))
    return G


def laplacian(W):
    """`S - W - W^T`, S the diagonal of row sums plus column sums."""
    n = len(W)
    M = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            M[i, i] += W[i][k] + W[k][i]
            M[i, k] -= W[i][k] + W[k][i]
    return M


def laplacian_product(W, Y):
    """`(S - W - W^T) Y`"""
    M = laplacian(W)
    out = np.zeros((len(Y), len(Y[0])))
    for i in range(len(Y)):
        for j in range(len(Y)):
            for a in range(len(Y[0])):
                out[i, a] += M[i, j] * Y[j][a]
    return out


def laplacian_gradient(X, W):
    """Eq. 6, `X (S - W - W^T) X^T` with samples as columns there and as rows here."""
    product = laplacian_product(W, X)
    G = np.zeros((len(X[0]), len(X[0])))
    for a in range(len(G)):
        for b in range(len(G)):
            for i in range(len(X)):
                G[a, b] += X[i][a] * product[i, b]
    return G


def inner_product(W, D):
    """`sum_ij w_ij d_ij`"""
    total = 0.0
    for i in range(len(D)):
        for j in range(len(D)):
            total += W[i][j] * D[i][j]
    return total


# -- the problem, Algorithm 1 and Algorithm 2 (Eq. 1) -----------------------------------------------------------------


def frobenius_squared(A):
    total = 0.0
    for row in A:
        for entry in row:
            total += float(entry) ** 2
    return total


def objective(X, A, loss, ridge):
    """Eq. 1's f(A): what Algorithm 2 minimises."""
    return ridge / 2 * frobenius_squared(A) + loss.value(distances(X, A))


def objective_gradient(X, A, loss, ridge):
    return gradient(X, loss.weights(distances(X, A))) + ridge * np.asarray(A)


def embedded(A_k, columns, n_features):
    """The matrix of B_kk whose one block is A_k."""
    A = np.zeros((n_features, n_features))
    for a, row in enumerate(columns):
        for b, col in enumerate(columns):
            A[row, col] = A_k[a][b]
    return A


def round_objective(X, A, alpha, A_k, columns, loss, ridge):
    """Algorithm 1, line 5: `f(alpha A + A_k)`."""
    return objective(X, alpha * np.asarray(A) + embedded(A_k, columns, len(A)), loss, ridge)


def group_score(X, A, columns, loss, ridge, norm):
    """Algorithm 1, line 4: `||Pi_PSD(-[df/dA]_kk)||`."""
    G = objective_gradient(X, A, loss, ridge)
    block = np.zeros((len(columns), len(columns)))
    for a, row in enumerate(columns):
        for b, col in enumerate(columns):
            block[a, b] = G[row, col]
    projected = project_psd(-block)
    if norm == "frobenius":
        return math.sqrt(frobenius_squared(projected))
    return max(np.linalg.eigvalsh(projected))


# -- projections ------------------------------------------------------------------------------------------------------


def project_psd(A):
    """Eigenvalues below zero put to zero, one eigenvector at a time."""
    values, vectors = np.linalg.eigh((np.asarray(A) + np.asarray(A).T) / 2)
    projected = np.zeros_like(vectors)
    for value, vector in zip(values, vectors.T, strict=True):
        if value > 0:
            projected += value * np.outer(vector, vector)
    return projected


def project_trace_ball(A, bound):
    """The eigenvalues lowered by one shift, found by bisection, until what is left above zero adds up to the bound."""
    values, vectors = np.linalg.eigh((np.asarray(A) + np.asarray(A).T) / 2)
    shift = simplex_shift(values, bound)
    projected = np.zeros_like(vectors)
    for value, vector in zip(values, vectors.T, strict=True):
        projected += max(value - shift, 0.0) * np.outer(vector, vector)
    return projected


def simplex_shift(values, bound):
    """The smallest shift >= 0 with `sum max(value - shift, 0) <= bound`."""

    def total(shift):
        return sum(max(float(value) - shift, 0.0) for value in values)

    if total(0.0) <= bound:
        return 0.0
    low, high = 0.0, max(float(value) for value in values)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) > bound else (low, middle)
    return high


# -- descriptors of image regions (section 4) -------------------------------------------------------------------------


def basic_features(picture, y, x):
    """x, y, I, |I_x|, |I_y|, |I_xx|, |I_yy|, the size and the orientation of the gradient at one pixel."""
    H, W = len(picture), len(picture[0])

    def grey(row, column):
        return float(picture[min(max(row, 0), H - 1)][min(max(column, 0), W - 1)])

    I_x, I_y = (grey(y, x + 1) - grey(y, x - 1)) / 2, (grey(y + 1, x) - grey(y - 1, x)) / 2
    I_xx = grey(y, x + 1) - 2 * grey(y, x) + grey(y, x - 1)
    I_yy = grey(y + 1, x) - 2 * grey(y, x) + grey(y - 1, x)
    sizes = [abs(I_x), abs(I_y), abs(I_xx), abs(I_yy)]
    return [x, y, grey(y, x), *sizes, math.hypot(I_x, I_y), math.atan2(abs(I_y), abs(I_x))]


def region_covariance(picture, region, scales):
    """Of the basic features of all pixels in a region; position in units of its own deviation."""
    top, left, height, width = region
    rows = [basic_features(picture, y, x) for y in range(top, top + height) for x in range(left, left + width)]
    scales = [math.sqrt(12 / (width**2 - 1)), math.sqrt(12 / (height**2 - 1)), *scales[2:]]
    rows = [[value * scale for value, scale in zip(row, scales, strict=True)] for row in rows]
    n, d = len(rows), len(scales)
    means = [sum(row[i] for row in rows) / n for i in range(d)]
    return np.array(
        [[sum((row[i] - means[i]) * (row[j] - means[j]) for row in rows) / n for j in range(d)] for i in range(d)]
    )


def tangent_vector(C):
    """`log C` by its eigenvectors, upper triangle row by row, off the diagonal times sqrt(2)."""
    eigenvalues, V = np.linalg.eigh(C)
    log = sum(math.log(eigenvalues[k]) * np.outer(V[:, k], V[:, k]) for k in range(len(C)))
    return np.array([log[i, j] * (1 if i == j else math.sqrt(2)) for i in range(len(C)) for j in range(i, len(C))])


def soft_pattern_histogram(differences, fuzziness, bin_of_pattern, n_bins):
    """Of one pixel: each of the 256 patterns with the product of its bits' probabilities."""
    histogram = np.zeros(n_bins)
    for pattern in range(2 ** len(differences)):
        probability = 1.0
        for p, z in enumerate(differences):
            one = min(max(0.5 + z / (2 * fuzziness), 0.0), 1.0)
            probability *= one if pattern >> p & 1 else 1 - one
        histogram[bin_of_pattern(pattern)] += probability
    return histogram
