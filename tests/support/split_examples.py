"""Running text whose sentences are known."""

# A bar where one sentence ends and the next starts.
EXAMPLES = [
    "It rained.|We stayed in.",
    "Mr. and Mrs. Smith met Dr. Who on St. James St. yesterday.|They left.",
    "The U.S. Army left.|He lives in the U.S.|The rest stayed.",
    "Fruit, e.g. apples, i.e. Malus, sells at 5 p.m. daily.|Buy some.",
    "J. R. R. Tolkien and George W. Bush met.|So did I.|No others did.",
    "He saw World War I.|Germany lost.",
    "Pi is 3.14 or so.|It costs $2.50.|20 people paid.",
    "See No. 5, Fig. 2 and p. 7.|No.|It is not there.",
    "Acme Inc. bought Foo Corp. for cash.|It was cheap.",
    "Bring pens, paper, etc.|Then write, draw, etc. on them.",
    '"Really?" she asked.|"Yes!"|He left.',
    "(He had left.)|[It was late.]|“So be it.”|‘Fine.’|Then silence.",
    "What?!|No way!!|Stop...|Now.",
    "Well ... maybe so ... and yet.|Yes.",
    "Wait . . . what?|Ok.",
    "i went home.|it was late.|He too.",
    "Yahoo! is a company.|So is Google.",
    "1. Wash the pan.|2. Dry it.|a. Hang it.",
    "That is good. :)|Thank you.",
    "Go to example.com or read a.b.c now.|Then stop.",
    "No end mark at all",
    "One line\n|another line\n\n|after a blank line.\r\n|And one.",
    "今日は晴れです。|明日は雨！|「本当？」|はい。",
    "क्या यह सच है।|हाँ।",
    "هل هذا صحيح؟|نعم",
]


def joined(example: str) -> str:
    """Return an example as running text."""
    return example.replace("|", "" if "。" in example else " ")
