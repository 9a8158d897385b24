"""The paper's two losses over all pairs (3.3) and all triplets (3.4), tile by tile."""

from samekind.losses.base import BoundLoss, Loss
from samekind.losses.pairwise import PairwiseLoss
from samekind.losses.triplet import TripletLoss

__all__ = ["BoundLoss", "Loss", "PairwiseLoss", "TripletLoss"]
