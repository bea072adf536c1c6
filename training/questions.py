"""Questions of general knowledge that a tool for something else does not answer."""

from __future__ import annotations

from random import Random

from training.word_pools import pool_entries

_FORMS = (
    "Who invented {thing}?", "who came up with {thing}", "How does {thing} work?",
    "What is {thing} made of?", "why is {thing} so expensive", "When was {thing} first used?",
    "How many kinds of {thing} are there?", "what's the point of {thing}", "Explain {thing} to me.",
    "Is {thing} better than {other}?", "What is the difference between {thing} and {other}?",
    "Who was the first person to {act}?", "how many people {act} every year",
    "How long does it take to {act}?", "Is it hard to {act}?", "what do I need to {act}",
    "Why do people {act}?", "Can you teach me how to {act}?", "Write a short poem about {thing}.",
    "give me three facts about {animal}s", "How many legs does {an_animal} have?",
    "How many {animal}s are left in the wild?", "what does {an_animal} eat",
    "How old is {place}?", "Who lives in {place}?", "who designed {place}",
    "How tall is {place} compared to {other_place}?", "In which country is {place}?",
    "Tell me a story about {an_animal} in {place}.", "Which came first, {thing} or {other}?",
    "Who wrote the first book about {thing}?", "how many words rhyme with {animal}",
    "What would happen if nobody could {act}?", "What colour is {thing} usually?",
    "why do some people hate {food}", "Is {food} good for you?",
    "Where does {food} come from originally?", "Which country eats the most {food}?",
    "Who was the first to make {food}?", "how long does {food} keep in the fridge",
    "Do {animal}s sleep at night?", "How fast can {an_animal} run?", "are {animal}s dangerous",
)  # fmt: skip
_THINGS = (
    "the zipper", "paper", "the compass", "concrete", "velcro", "the umbrella", "porcelain", "soap",
    "the bicycle", "glass", "the telephone", "penicillin", "the steam engine", "a hologram", "rust",
    "the abacus", "chewing gum", "the microscope", "gunpowder", "aspirin", "the barometer", "jazz",
    "the crossword", "dynamite", "the violin", "ketchup", "denim", "the lighthouse", "a transistor",
    "photosynthesis", "inflation", "the Richter scale", "tofu", "blockchain", "marzipan", "opera",
)  # fmt: skip
_ACTS = (
    "swim the Channel", "climb Everest", "learn Finnish", "juggle five balls", "bake sourdough",
    "fly a helicopter", "become a notary", "build a canoe", "run a marathon", "keep bees",
    "walk on the moon", "solve a Rubik's cube", "adopt a cat", "grow saffron", "speak Latin",
    "cross the Sahara", "become a vegan", "knit a jumper", "tie a bowline", "row to Greenland",
)  # fmt: skip
_PLACES = (
    "the Eiffel Tower", "Machu Picchu", "the Parthenon", "Mont Blanc", "the Kremlin", "Alcatraz",
    "Stonehenge", "the Hagia Sophia", "Angkor Wat", "the Sagrada Família", "Petra", "Loch Ness",
    "the Taj Mahal", "Easter Island", "the Panama Canal", "Neuschwanstein", "the Colosseum",
)  # fmt: skip


def question(rng: Random) -> str:
    """One question, of some ten thousand."""
    thing, other = rng.sample(_THINGS, 2)
    place, other_place = rng.sample(_PLACES, 2)
    animal = rng.choice(pool_entries("animal"))
    words = {
        "thing": thing,
        "other": other,
        "act": rng.choice(_ACTS),
        "animal": animal,
        "food": rng.choice(pool_entries("food")),
        "an_animal": f"an {animal}" if animal[0] in "aeiou" else f"a {animal}",
        "place": place,
        "other_place": other_place,
    }
    return rng.choice(_FORMS).format(**words)
