"""Five tools and thirty requests for them: the same work for every run of the caller's bench."""

from __future__ import annotations

from typing import Any

from edgewise.types.messages import Tool


def _tool(name: str, description: str, required: list[str], **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(name=name, description=description, parameters=schema)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


TOOLS = (
    _tool(
        "get_weather",
        "Get the current weather for a place",
        ["place"],
        place=_text("City or region"),
        unit={"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
    ),
    _tool(
        "set_timer",
        "Start a countdown timer",
        ["minutes"],
        minutes=_whole("Length in minutes"),
        label=_text("What the timer is for"),
    ),
    _tool(
        "send_message",
        "Send a text message to a contact",
        ["recipient", "text"],
        recipient=_text("Name of the contact"),
        text=_text("What to say"),
    ),
    _tool(
        "play_music",
        "Play a song, an artist or a playlist",
        ["query"],
        query=_text("What to play"),
        shuffle={"type": "boolean", "default": False},
    ),
    _tool(
        "set_lights",
        "Switch or dim the lights of a room",
        ["room", "brightness"],
        room=_text("Which room"),
        brightness=_whole("Per cent, 0 is off"),
    ),
)

REQUESTS = (
    "what's the weather in Oslo?",
    "set a timer for 12 minutes",
    "text Maria that I'm running ten minutes late",
    "play some Miles Davis",
    "dim the kitchen lights to 30 percent",
    "is it raining in Lisbon right now",
    "start a 45 minute timer for the bread",
    "tell Jonas the meeting moved to Friday",
    "put on my morning playlist and shuffle it",
    "turn off the lights in the bedroom",
    "how warm is it in Nairobi in fahrenheit",
    "timer for 3 minutes please, it's for the tea",
    "message Aunt Ingrid: happy birthday",
    "I'd like to hear Clair de Lune",
    "set the living room lights to full brightness",
    "weather for Buenos Aires",
    "remind me in 20 minutes to check the oven",
    "let Priya know dinner is at seven",
    "play jazz for studying",
    "hallway lights at 15 percent",
    "do I need a coat in Reykjavik today?",
    "give me a five minute countdown",
    "send Tom a message saying the keys are under the mat",
    "shuffle the Beatles",
    "make the office a bit darker, 60 percent",
    "weather in Kyoto and in Osaka",
    "set a timer for 8 minutes and play Radiohead",
    "write to Elena that I have landed safely",
    "turn the garage lights off and text Sam good night",
    "what is the capital of Peru?",
)
