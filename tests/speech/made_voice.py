"""A voice made of nothing, from where the soak has it too."""

from edgewise_bench.speech.made_voice import Samples, noise, silence, stereo, voice, wav

__all__ = ["Samples", "noise", "silence", "stereo", "voice", "wav"]
