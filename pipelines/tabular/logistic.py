"""Logistic regression over lists. Put scikit-learn or XGBoost in its place when you have them."""

import math


def probability(weights, x):
    """weights: one a column, and the intercept at the end."""
    z = weights[-1] + sum(w * v for w, v in zip(weights, x))
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))


def fit(rows, epochs, lr, l2):
    """Gradient descent over all rows at once, so no order and no random number matters."""
    weights = [0.0] * (len(rows[0]["x"]) + 1)
    for _ in range(epochs):
        gradient = [l2 * w for w in weights]
        for row in rows:
            error = (probability(weights, row["x"]) - row["label"]) / len(rows)
            for i, v in enumerate(row["x"]):
                gradient[i] += error * v
            gradient[-1] += error
        weights = [w - lr * g for w, g in zip(weights, gradient)]
    return weights
