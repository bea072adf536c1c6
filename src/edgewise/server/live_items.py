"""What is said in a live transcription, as items in OpenAI's realtime shape.

Each utterance is an item: somebody starts to speak, words come as deltas once they are settled,
and the text as `completed` when it has ended. What the cloud corrects afterwards is an event of
our own, tied to the item: nothing that was shown changes without being said.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from edgewise.server.transcript_shapes import segment_report
from edgewise.types.transcripts import Correction, LiveUpdate, Segment, Utterance, Word

BUFFER = "input_audio_buffer."
TRANSCRIPTION = "conversation.item.input_audio_transcription."

Event = dict[str, Any]


class LiveItems:
    """The items of one stretch of sound, from its first append to its commit."""

    def __init__(self, event: Callable[..., Event], first_word: Callable[[], None]) -> None:
        self._event, self._first_word = event, first_word
        self.outstanding = 0  # at the cloud
        self._prefix = uuid.uuid4().hex[:12]
        self._of_segment: dict[int, str] = {}
        self._count = 0
        self._begun = -1  # the last item that was said to have begun
        self._words = 0  # of the open item
        self._any_word = False
        self._pending = ""

    def told(self, update: LiveUpdate) -> Iterator[Event]:
        """An update in events."""
        self.outstanding = update.outstanding
        words = list(update.new_words)
        segments = {segment.id: segment for segment in update.new_segments}
        for spoken in update.utterances:
            own = [word for word in words if word.start < spoken.end]
            words = words[len(own) :]
            yield from self._began(spoken.start)
            yield from self._deltas(own)
            yield from self._ended(spoken, segments)
        if update.speaking_since is not None:
            yield from self._began(update.speaking_since)
        yield from self._deltas(words)
        if update.pending != self._pending:
            self._pending = update.pending
            yield self._event(
                "edgewise.transcription.provisional", item_id=self._item, text=update.pending
            )
        for correction in update.corrections:
            yield self._corrected(correction)

    @property
    def _item(self) -> str:
        """The one being spoken."""
        return f"item_{self._prefix}_{self._count}"

    def _began(self, start: float) -> Iterator[Event]:
        """Somebody speaks: said once of each item."""
        if self._begun < self._count:
            self._begun = self._count
            yield self._event(
                f"{BUFFER}speech_started", item_id=self._item, audio_start_ms=round(1000 * start)
            )

    def _deltas(self, words: list[Word]) -> Iterator[Event]:
        for word in words:
            space = " " if self._words else ""
            self._words += 1
            if not self._any_word:
                self._any_word = True
                self._first_word()
            yield self._event(
                f"{TRANSCRIPTION}delta",
                item_id=self._item,
                content_index=0,
                delta=space + word.text,
            )

    def _ended(self, spoken: Utterance, segments: Mapping[int, Segment]) -> Iterator[Event]:
        """The item is complete; one in which no word was heard has an empty text."""
        segment = None if spoken.segment_id is None else segments[spoken.segment_id]
        item = self._item
        if segment is not None:
            self._of_segment[segment.id] = item
        before = f"item_{self._prefix}_{self._count - 1}" if self._count else None
        self._count += 1
        self._words, self._pending = 0, ""
        end = round(1000 * spoken.end)
        yield self._event(f"{BUFFER}speech_stopped", item_id=item, audio_end_ms=end)
        yield self._event(f"{BUFFER}committed", item_id=item, previous_item_id=before)
        yield self._event(
            f"{TRANSCRIPTION}completed",
            item_id=item,
            content_index=0,
            transcript=segment.text if segment else "",
            usage={"type": "duration", "seconds": round(spoken.end - spoken.start, 3)},
            edgewise=segment_report(segment) if segment else None,
        )

    def _corrected(self, correction: Correction) -> Event:
        item = self._of_segment.get(correction.segment_id, "")
        if correction.cloud_result is None:
            return self._event("edgewise.transcription.kept", item_id=item, error=correction.error)
        return self._event(
            "edgewise.transcription.corrected",
            item_id=item,
            transcript=correction.cloud_result,
            replaced=correction.replaced,
            source="cloud",
        )
