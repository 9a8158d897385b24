"""What training produces and use needs. Nothing here imports a solver.

    BlockMetric   what step 1 learns: a small metric for each chosen feature group
    Basis         the chosen feature groups and U_k of each: array, store or picture features -> features of step 2
    Metric        a basis and components over it, with all that use needs: distance, threshold, mirror images
    Calibration   probabilities and thresholds at false match rates, from classes left out
    Encoder       pictures -> codes, by way of the chosen regions alone
    Explanation   a distance as a sum over the chosen groups: which of them speak for "same", which against
    file, fields  one checksummed file; what each field may be

`estimators` make metrics; `evaluation`, `cli` and `lfw` use them.
"""
