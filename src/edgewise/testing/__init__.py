"""Fakes that ship with edgewise: a scripted cloud over real HTTP and scripted local models.

>>> import json, urllib.request
>>> from edgewise.testing import Answer, LoopbackCloud
>>> with LoopbackCloud() as cloud:
...     cloud.script(Answer(text="Paris."))
...     body = {"text": "Capital of France?", "language": "en-US", "model": "any"}
...     with urllib.request.urlopen(
...         cloud.cactus_url + "/text", data=json.dumps(body).encode()
...     ) as response:
...         json.load(response)["text"]
'Paris.'

>>> from edgewise.testing import ScriptedBackend
>>> from edgewise.types.messages import Message, Request
>>> from edgewise.types.replies import Token
>>> backend = ScriptedBackend.doubtful("Perhaps Lyon.")
>>> request = Request(messages=(Message("user", "Capital of France?"),))
>>> [item.text for item in backend.generate(request) if isinstance(item, Token)]
['Perhaps', ' Lyon.']
"""

from edgewise.testing.loopback_cloud import (
    LoopbackCloud,
    Reply,
    black_hole,
    refused_url,
    unresolvable_url,
)
from edgewise.testing.loopback_cloud.wires import (
    Answer,
    Cut,
    Empty,
    Fault,
    Malformed,
    Recorded,
    Scripted,
    SeenRequest,
    Silence,
    Status,
)
from edgewise.testing.scripted import (
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    ScriptedVoice,
    heard,
    word_tokens,
)

__all__ = [
    "Answer",
    "Cut",
    "Empty",
    "Fault",
    "LoopbackCloud",
    "Malformed",
    "Recorded",
    "Reply",
    "Scripted",
    "ScriptedBackend",
    "ScriptedEmbedder",
    "ScriptedFunctionModel",
    "ScriptedTranscriber",
    "ScriptedVoice",
    "SeenRequest",
    "Silence",
    "Status",
    "black_hole",
    "heard",
    "refused_url",
    "unresolvable_url",
    "word_tokens",
]
