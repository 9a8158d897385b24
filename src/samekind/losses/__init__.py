"""The two losses of Huang, Zhu and Yu (arXiv:1212.6094) over all pairs (3.3) and all triplets (3.4), tile by tile.

    objective  ->  Loss.bind(relation)  ->  BoundLoss    the normalisers of one relation
                     statistics                          of rows, in a first pass over the tiles (triplet: Eq. 10)
                     anchors                             from them the value, and what the weights need of each sample
                     tile_value, tile_weights            of any tile: its share of the value (pairwise), H (Eq. 5, 11)

A loss gets tiles of distances and of the relation (`relation.PairTile`), never the data, and calls `kernels` only.

    base       what a loss is                            Loss, BoundLoss
    pairwise   same or not: a logistic loss on d_ij      PairwiseLoss
    triplet    nearer or not: soft nearest neighbours    TripletLoss
"""

from samekind.losses.base import BoundLoss, Loss
from samekind.losses.pairwise import PairwiseLoss
from samekind.losses.triplet import TripletLoss

__all__ = ["BoundLoss", "Loss", "PairwiseLoss", "TripletLoss"]
