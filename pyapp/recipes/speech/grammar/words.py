"""The rules of the speech grammar: name -> alternatives; [name] stands for one of that rule's. TOPICS begin."""

from __future__ import annotations


def _split(text: str) -> tuple[str, ...]:
    """Alternatives that are divided by "|" or line breaks."""
    return tuple(part.strip() for part in text.replace("\n", "|").split("|") if part.strip())


TOPICS: dict[str, float] = {
    "digits": 1.2, "counting": 1.2, "clock_time": 1.3, "date": 1.3, "home_command": 1.2, "device_command": 1.0,
    "way": 1.1, "travel": 1.2, "weather": 1.3, "shopping": 1.2, "people": 1.1, "smalltalk": 1.0, "question": 1.0,
    "linked": 1.2,
}  # fmt: skip

_WORDS = {
    "digit": "zero | one | two | three | four | five | six | seven | eight | nine",
    "unit": "one | two | three | four | five | six | seven | eight | nine",
    "teen": "ten | eleven | twelve | thirteen | fourteen | fifteen | sixteen | seventeen | eighteen | nineteen",
    "tens": "twenty | thirty | forty | fifty | sixty | seventy | eighty | ninety",
    "below_hundred": "[unit] | [teen] | [tens] | [tens] [unit] | [tens] [unit]",
    "number": """[below_hundred] | [below_hundred] | [below_hundred] | [unit] hundred
        [unit] hundred and [below_hundred] | [unit] thousand""",
    "several": "two | three | four | five | six | seven | eight | nine | ten | twelve",
    "minutes": "two | three | five | ten | fifteen | twenty | twenty five | thirty | forty | forty five",
    "ordinal": """first | second | third | fourth | fifth | sixth | seventh | eighth | ninth | tenth | twelfth
        fifteenth | twentieth | twenty first | twenty second | twenty third | twenty fifth | thirtieth""",
    "month": """January | February | March | April | May | June | July | August | September | October | November
        December""",
    "day": "Monday | Tuesday | Wednesday | Thursday | Friday | Saturday | Sunday",
    "hour": "one | two | three | four | five | six | seven | eight | nine | ten | eleven | twelve",
    "clock": """[hour] o'clock | half past [hour] | a quarter past [hour] | a quarter to [hour] | noon | midnight
        [minutes] minutes past [hour] | [hour] thirty | [hour] fifteen | [hour] forty five""",
    "part": "in the morning | in the afternoon | in the evening",
    "when": """today | tomorrow | tonight | this evening | on [day] | next [day] | next week | tomorrow morning
        at [clock] | on [day] at [clock] | in [several] days""",
    "season": "spring | summer | autumn | winter",
    "device": "light | lamp | radio | television | heating",
    "room": "kitchen | bedroom | bathroom | garden | office",
    "opening": "door | window | garage",
    "music": "music | song | news",
    "place": "station | airport | museum | hospital | school | market | bank | hotel | park | restaurant",
    "landmark": "bridge | river | tower | lake",
    "near": "next to | behind | near",
    "city": "London | Paris | Berlin | Rome | Madrid | Vienna | Boston | Tokyo",
    "vehicle": "train | bus | plane | taxi | boat",
    "weather_word": "sunny | rainy | cloudy | windy | cold | warm | hot | dry",
    "weather_thing": "rain | snow | wind",
    "name": "Anna | Peter | Maria | David | Emma | Martin",
    "relative": "mother | father | brother | sister | friend",
    "person": "[name] | [name] | my [relative] | your [relative]",
    "food": "coffee | tea | water | milk | bread | rice | soup",
    "fruit": "apples | oranges | bananas | eggs | potatoes",
    "measure": "cups | bottles | bags",
    "color": "red | green | blue | yellow | black | white",
    "thing": "book | letter | key | phone | bag | ticket | table | umbrella",
    "size": "big | small | new | old",
}  # fmt: skip

_SENTENCES = {
    "digits": """
        My number is [four_digits].
        The number is [three_digits], [four_digits].
        Call [three_digits], [three_digits], [four_digits].
        The code is [four_digits].
        [three_digits], [three_digits].
        Room [three_digits], please.
        Not [digit], but [digit].""",
    "three_digits": "[digit] [digit] [digit]",
    "four_digits": "[digit] [digit] [digit] [digit]",
    "counting": """
        What is [below_hundred] plus [below_hundred]?
        What is [below_hundred] times [unit]?
        [below_hundred] plus [unit] is [below_hundred].
        [number] minus [below_hundred] is [number].
        Count from [unit] to [below_hundred].
        One, two, three, four, five.
        There are [number] people in the [place].
        The [thing] costs [number] dollars.
        The [landmark] is [number] meters long.""",
    "clock_time": """
        It is [clock].
        What time is it in [city]?
        The [vehicle] leaves at [clock].
        The [place] opens at [clock] [part].
        The [place] closes at [clock].
        Wake me up at [clock].
        Set a timer for [minutes] minutes.
        Set an alarm for [clock] [part].
        We have [minutes] minutes left.
        Dinner is at [clock].""",
    "date": """
        Today is [day], the [ordinal] of [month].
        My birthday is on the [ordinal] of [month].
        The meeting is on [day] at [clock].
        What day is it tomorrow?
        [person] was born on the [ordinal] of [month].
        We will meet on the [ordinal] of [month].
        The [place] is closed on [day] and [day].
        Remind me on [day] to call [person].
        [season], [season], [season].
        From the [ordinal] to the [ordinal] of [month].""",
    "home_command": """
        Turn on the [device] in the [room].
        Turn off the [device] in the [room].
        Turn the [device] on.
        Turn the [device] off, please.
        Open the [opening].
        Close the [opening], please.
        Set the [device] to [below_hundred] percent.
        Set the heating to [below_hundred] degrees.
        Is the [opening] open or closed?""",
    "device_command": """
        Play some [music].
        Play the next [music].
        Stop the [music].
        Call [person].
        Send a letter to [person].
        Read the [ordinal] letter.
        Start.
        Stop.
        Go back.
        Go on.""",
    "way": """
        Where is the [place]?
        How do I get to the [place]?
        The [place] is [near] the [landmark].
        Turn [side] at the [landmark].
        Turn [side] after the [place].
        Go [number] meters, then turn [side].
        Is there a [place] near here?
        The [place] is on the [side] side of the street.
        It is [minutes] minutes from the [place] to the [place].
        Take the [ordinal] street on the [side].""",
    "side": "left | right",
    "travel": """
        The [vehicle] to [city] is [minutes] minutes late.
        The [vehicle] from [city] arrives at [clock].
        When does the next [vehicle] to [city] leave?
        [person] is in [city].
        [person] lives in [city].
        I am going to [city] [when].
        Two tickets to [city], please.
        A ticket from [city] to [city], please.
        My [thing] is on the [vehicle].""",
    "weather": """
        How is the weather in [city]?
        What will the weather be like [when]?
        It is [weather_word] and [weather_word] in [city].
        It will be [weather_word] [when].
        It is [below_hundred] degrees in [city].
        The temperature is minus [below_hundred] degrees.
        There will be [weather_thing] in the [direction] [when].
        There was [weather_thing] in the [direction] and [weather_thing] in the [direction].
        The [season] was [weather_word] and very [weather_word].""",
    "direction": "north | south | east | west",
    "shopping": """
        I would like [several] [measure] of [food].
        I would like some [food] and a cup of [food].
        How much are the [fruit]?
        How much is the [color] [thing]?
        We need [fruit], [fruit] and [food].
        [several] [measure] of [food] and [several] [fruit].
        Do you have a [size] [color] [thing]?
        [number] dollars and [below_hundred] cents.
        I take the [color] [thing].""",
    "people": """
        My name is [name].
        This is my [relative] [name].
        [person] is [below_hundred] years old.
        [name] and [name] are in the [room].
        [person] has a [size] [thing].
        Where is [person]?
        [person] comes home at [clock].
        [person] likes [food] with [food].
        Is [person] at home [when]?""",
    "smalltalk": """
        Good morning, [name].
        Good evening.
        Good night, [name].
        Hello.
        Hello, [name].
        Yes.
        No.
        Yes, please.
        No, thank you.
        Thank you very much.
        How are you?
        I am very well, thank you.
        I am sorry.
        See you [when].
        Have a nice day.
        Can you help me?
        Goodbye.""",
    "question": """
        What is your name?
        Who is there?
        Where are you?
        What is this?
        Why is the [thing] [color]?
        Which [vehicle] goes to the [place]?
        How many [fruit] do we have?
        How old is [person]?
        Who has my [thing]?
        Can I have the [thing], please?
        Do you like [food]?
        Is it [color] or [color]?
        When does the [place] open?""",
    "linked": """
        [clause], and [clause].
        [clause], but [clause].
        If it is [weather_word] [when], we go to the [place].
        When the [vehicle] arrives, call [person].
        First we go to the [place], then to the [place].""",
    "clause": """
        the [place] is [near] the [landmark]
        it is [weather_word] in [city]
        the [vehicle] leaves at [clock]
        [person] is in the [room]
        we have [several] [fruit] and some [food]
        the [thing] is [color]
        turn on the [device] in the [room]
        close the [opening]
        [person] is [below_hundred] years old
        it will be [weather_word] [when]
        we meet at the [place] at [clock]""",
}

RULES: dict[str, tuple[str, ...]] = {name: _split(text) for name, text in {**_WORDS, **_SENTENCES}.items()}
