"""How the work over all pairs is cut up, where its distances come from, and who does it.

    objective.Objective, solvers.*
      |
      |-- tiles       which pairs are visited, tile by tile             TilePlan: all of them
      |     anchors   or a sample of them that stands for all           AnchorPlan, SubsetPlan
      |-- sources     the distances of a tile: from the data, from      FactoredDistances, ScaledSum,
      |               memory, or under the metric as it stands          KeptTiles, PresentDistances
      |-- executor    strips of tiles in threads, results in order      Executor (on samekind.threads)
      |-- site        state and named operations, here or elsewhere     Site, Recipe, Message, perform
      |     present   a site with the distances so far                  PresentSite
      |-- reduction   in which order sums over strips are taken         leaves_of, reduced, total_of
      '-- memory      what each of them may take of `memory_budget`     MemoryBudget

    beyond one machine: cluster (`samekind.cluster`, local processes), dask (DaskExecutor, run_worker; the only import
    of dask), running (one operation on all workers), owners (who has which leaves), packing (bytes that travel),
    remarks (what workers have to say)

`Objective` goes through the strips of a plan: for each tile it asks a source for distances, the relation for the pairs,
the loss for weights, and hands them to a form of `kernels.laplacian`. Tiles, then reductions, then merging, as in
scikit-learn's pairwise-distances reductions. What is summed, and in which order, depends on the plan alone: neither the
number of threads, processes or machines nor what is kept in memory changes a bit of the result.

The loss over all pairs is that of Huang, Zhu and Yu, arXiv:1212.6094, 3.3 and 3.4. Samples estimate it: the pairs of
random anchor rows with all others, weighted by the inverse of their chance to be drawn (Horvitz and Thompson, 1952), or
the pairs among random samples (an incomplete U-statistic; Clemencon, Colin and Bellet, 2016).
"""
