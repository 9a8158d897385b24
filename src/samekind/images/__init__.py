"""From pictures to feature groups: loading, alignment, regions, and their descriptors (section 4 of the paper).

    listing       which pictures there are, with which labels; `landmarks`: their eyes and mouths, from a CSV
    extractor     picture -> feature groups, family by family, level by level          Extractor
      load          a file as grey floats (netpbm, deep_png: formats that Pillow does not read in full)
      align         crops in which the same pixel shows the same part; `detect` finds eyes and mouths
      levels        scales of the image pyramid
      regions       rectangles spread evenly over a crop, in mirror pairs
      covariance    region covariance descriptors (Tuzel, Porikli and Meer, 2006)      Covariance
      slbp          soft histograms of local binary patterns (Ahonen and Pietikainen)  SoftLBP
        integral      sums over rectangles; `illumination`: normalised before local binary patterns
    description   an extractor as JSON, in models and stores
    save          pictures to files

`extraction` fills a store with an extractor's descriptors; `model.encoder` computes those of the chosen regions alone.
opencv and Pillow are imported here only.
"""
