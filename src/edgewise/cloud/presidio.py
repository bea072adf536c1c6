"""Names of people, found by presidio-analyzer with a spaCy model. An extra; never downloads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from edgewise.cloud.personal_data import Found
from edgewise.errors import ExtraMissing, ModelNotFound

_LANGUAGE = "en"  # only a name for the one model that there is


class PresidioFinder:
    """`model` is the name of an installed spaCy model, or its folder. Loaded when first used."""

    kinds = ("NAME",)

    def __init__(self, model: str) -> None:
        self._model = model
        self._lock = threading.Lock()
        self._analyzer: Any = None

    def find(self, text: str) -> Iterator[Found]:
        with self._lock:
            self._analyzer = self._analyzer or self._open()
        for each in self._analyzer.analyze(text=text, language=_LANGUAGE, entities=["PERSON"]):
            yield Found(each.start, each.end, "NAME")

    def _open(self) -> Any:
        try:
            spacy = import_module("spacy")
            presidio = import_module("presidio_analyzer")
            engines = import_module("presidio_analyzer.nlp_engine")
            recognizers = import_module("presidio_analyzer.predefined_recognizers")
        except ImportError as error:
            raise ExtraMissing("redact", "presidio-analyzer") from error
        if not (spacy.util.is_package(self._model) or Path(self._model).is_dir()):
            # presidio would fetch it by itself, in the middle of a request.
            raise ModelNotFound(
                f"presidio needs the spaCy model {self._model!r}: "
                f"python -m spacy download {self._model}, or set finder_model to a folder"
            )
        engine = engines.SpacyNlpEngine(
            models=[{"lang_code": _LANGUAGE, "model_name": self._model}]
        )
        engine.load()
        # Only names: our own patterns find the rest, and some of presidio's look things up online.
        names = recognizers.SpacyRecognizer(
            supported_language=_LANGUAGE, supported_entities=["PERSON"]
        )
        registry = presidio.RecognizerRegistry(recognizers=[names], supported_languages=[_LANGUAGE])
        return presidio.AnalyzerEngine(
            nlp_engine=engine, registry=registry, supported_languages=[_LANGUAGE]
        )
