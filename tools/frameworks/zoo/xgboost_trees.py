"""XGBoost: trees that are grown and asked on the GPU, by objectives that do not check labels there: no kernel would."""

import numpy
import xgboost

values = numpy.random.default_rng(1)
x, y = values.standard_normal((256, 8), dtype=numpy.float32), values.integers(0, 2, 256)
SETTINGS = {"device": "cuda", "tree_method": "hist", "max_depth": 3, "max_bin": 16, "verbosity": 0, "nthread": 1}

for objective in "reg:pseudohubererror", "binary:hinge":
    data = xgboost.QuantileDMatrix(x, y, max_bin=16)
    booster = xgboost.train({**SETTINGS, "objective": objective}, data, 4)
    print(objective, booster.num_boosted_rounds(), booster.predict(data).shape, booster.inplace_predict(x).shape)
