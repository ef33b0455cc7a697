"""Evaluation: the classifier, its measures, leaks, significance, and the path of sizes."""

from bowsaw.evaluation.classifier import HistogramClassifier
from bowsaw.evaluation.measures import class_accuracies, confusion, mean_class_accuracy
from bowsaw.evaluation.path import PruningPath, Recommendation
from bowsaw.evaluation.significance import Comparison, holm, paired_test, pooled

__all__ = [
    "Comparison",
    "HistogramClassifier",
    "PruningPath",
    "Recommendation",
    "class_accuracies",
    "confusion",
    "holm",
    "mean_class_accuracy",
    "paired_test",
    "pooled",
]
