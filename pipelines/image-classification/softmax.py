"""Softmax regression over lists. Put a network of PyTorch in its place when you have it."""

import math
import operator


def probabilities(weights, pixels):
    """weights: a list a class, one number a pixel and the intercept at the end."""
    scores = [w[-1] + sum(map(operator.mul, w, pixels)) for w in weights]
    top = max(scores)
    parts = [math.exp(s - top) for s in scores]
    return [p / sum(parts) for p in parts]


def learn(weights, pixels, label, lr):
    """One step of gradient descent on one sample; returns its loss."""
    found = probabilities(weights, pixels)
    for c, w in enumerate(weights):
        move = lr * (found[c] - (c == label))
        for i, v in enumerate(pixels):
            w[i] -= move * v
        w[-1] -= move
    return -math.log(max(found[label], 1e-12))
