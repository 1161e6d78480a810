"""The rules of the speech grammar: name -> alternatives; [name] stands for one of that rule's. TOPICS begin."""

from __future__ import annotations


def _split(text: str) -> tuple[str, ...]:
    """Alternatives that are divided by "|" or line breaks."""
    return tuple(part.strip() for part in text.replace("\n", "|").split("|") if part.strip())


TOPICS: dict[str, float] = {
    "digits": 1.2, "counting": 1.2, "clock_time": 1.3, "date": 1.2, "home_command": 1.3, "device_command": 1.1,
    "way": 1.2, "travel": 1.2, "weather": 1.3, "shopping": 1.2, "people": 1.1, "office": 1.0, "smalltalk": 1.0,
    "question": 1.0, "linked": 1.3,
}  # fmt: skip

_WORDS = {
    "digit": "zero | one | two | three | four | five | six | seven | eight | nine",
    "unit": "one | two | three | four | five | six | seven | eight | nine",
    "teen": "ten | eleven | twelve | thirteen | fourteen | fifteen | sixteen | seventeen | eighteen | nineteen",
    "tens": "twenty | thirty | forty | fifty | sixty | seventy | eighty | ninety",
    "below_hundred": "[unit] | [teen] | [tens] | [tens] [unit] | [tens] [unit]",
    "number": """[below_hundred] | [below_hundred] | [below_hundred] | [unit] hundred
        [unit] hundred and [below_hundred] | [unit] thousand | [unit] thousand [unit] hundred""",
    "several": "two | three | four | five | six | seven | eight | nine | ten | eleven | twelve",
    "minutes": "two | three | five | ten | twelve | fifteen | twenty | twenty five | thirty | forty | forty five",
    "ordinal": """first | second | third | fourth | fifth | sixth | seventh | eighth | ninth | tenth | eleventh
        twelfth
        thirteenth | fourteenth | fifteenth | sixteenth | seventeenth | eighteenth | nineteenth | twentieth
        twenty first | twenty second | twenty third | twenty fourth | twenty fifth | twenty sixth | twenty seventh
        twenty eighth | twenty ninth | thirtieth | thirty first""",
    "month": """January | February | March | April | May | June | July | August | September | October | November
        December""",
    "day": "Monday | Tuesday | Wednesday | Thursday | Friday | Saturday | Sunday",
    "hour": "one | two | three | four | five | six | seven | eight | nine | ten | eleven | twelve",
    "clock": """[hour] o'clock | half past [hour] | a quarter past [hour] | a quarter to [hour] | noon | midnight
        [minutes] minutes past [hour] | [hour] thirty | [hour] fifteen | [hour] forty five | [hour] twenty""",
    "part": "in the morning | in the afternoon | in the evening",
    "when": """today | tomorrow | tonight | this evening | on [day] | next [day] | next week | this morning
        tomorrow morning | at [clock] | on [day] at [clock] | in [several] days""",
    "season": "spring | summer | autumn | winter",
    "device": "light | lamp | radio | television | heating | computer | alarm",
    "room": "kitchen | bedroom | bathroom | garden | living room | office | garage",
    "opening": "door | window | gate | garage",
    "music": "song | music | news | film",
    "place": """station | airport | museum | library | hospital | school | market | bank | church | park | hotel
        theater | post office | restaurant | beach""",
    "landmark": "bridge | river | tower | lake | corner | forest",
    "near": "next to | behind | near | opposite | in front of",
    "city": """London | Paris | Berlin | Rome | Madrid | Vienna | Oslo | Lisbon | Boston | Chicago | Toronto | Tokyo""",
    "vehicle": "train | bus | plane | taxi | boat | car",
    "weather_word": "sunny | rainy | cloudy | windy | cold | warm | hot | snowy | dry | wet",
    "weather_thing": "rain | snow | wind | fog",
    "name": "Anna | Peter | Maria | David | Emma | Oliver | Julia | Martin",
    "relative": "mother | father | brother | sister | friend | doctor | teacher",
    "person": "[name] | [name] | my [relative] | your [relative] | our [relative]",
    "food": """coffee | tea | water | milk | bread | butter | cheese | rice | soup | sugar | fish""",
    "fruit": "apples | oranges | bananas | eggs | potatoes | tomatoes",
    "measure": "cups | bottles | bags | boxes | kilos",
    "color": "red | green | blue | yellow | black | white | brown",
    "thing": """book | letter | key | phone | bag | ticket | table | chair | box | coat | umbrella | picture | map""",
    "size": "big | small | new | old | long | short",
    "job": "file | message | report | page | list",
}  # fmt: skip

_SENTENCES = {
    "digits": """
        My number is [four_digits].
        The number is [three_digits], [four_digits].
        Call [three_digits], [three_digits], [four_digits].
        The code is [four_digits].
        [three_digits], [three_digits].
        Room [three_digits], please.
        The password is [four_digits], not [four_digits].
        Platform [unit], seat [below_hundred].""",
    "three_digits": "[digit] [digit] [digit]",
    "four_digits": "[digit] [digit] [digit] [digit]",
    "counting": """
        What is [below_hundred] plus [below_hundred]?
        What is [below_hundred] times [unit]?
        [below_hundred] plus [unit] is [below_hundred].
        [number] minus [below_hundred] makes [number].
        Count from [unit] to [below_hundred].
        One, two, three, four, five.
        There are [number] people in the [place].
        The [thing] costs [number] dollars.
        The [landmark] is [number] meters high.
        [below_hundred] percent of the people said yes.""",
    "clock_time": """
        It is [clock].
        It's [clock].
        What time is it in [city]?
        The [vehicle] leaves at [clock].
        The [place] opens at [clock] [part].
        The [place] closes at [clock].
        Wake me up at [clock].
        Wake me at [clock] [part].
        Set a timer for [minutes] minutes.
        Set an alarm for [clock] [part].
        We have [minutes] minutes left.
        The film begins at [clock] and ends at [clock].
        Dinner is ready at [clock].""",
    "date": """
        Today is [day], the [ordinal] of [month].
        My birthday is on [month] the [ordinal].
        The meeting is on [day] at [clock].
        What day is it tomorrow?
        [person] was born on the [ordinal] of [month].
        We will meet on the [ordinal] of [month].
        The [place] is closed on [day] and [day].
        Remind me on [day] to call [person].
        The [season] begins in [month].
        From the [ordinal] to the [ordinal] of [month].
        It was the [ordinal] of [month], nineteen [tens] [unit].""",
    "home_command": """
        Turn on the [device] in the [room].
        Turn off the [device] in the [room].
        Turn the [device] on.
        Turn the [device] off, please.
        Please turn off the [device].
        Open the [opening].
        Close the [opening], please.
        Lock the [opening] at [clock].
        Set the [device] to [below_hundred] percent.
        Set the heating to [below_hundred] degrees.
        Make the [room] [warmer].
        Is the [opening] open or closed?""",
    "warmer": "warmer | cooler",
    "device_command": """
        Play some [music].
        Play the next [music].
        Stop the [music].
        Play the [music] again from the beginning.
        Make it louder.
        Volume up.
        Volume down.
        Call [person].
        Send a message to [person].
        Read the last message.
        Take a picture of the [landmark].
        Start.
        Stop.
        Pause.
        Go back.
        Repeat the last sentence.
        Save the [job] and close it.
        Delete the [ordinal] [job].
        Show me the [job] from [day].
        Print [several] copies of the [job].""",
    "way": """
        Where is the [place]?
        How do I get to the [place]?
        The [place] is [near] the [landmark].
        Turn left at the [landmark].
        Turn right after the [place].
        Go straight on to the [landmark].
        Walk [number] meters, then turn [side].
        Is there a [place] near here?
        The [place] is on the [side] side of the street.
        It is [minutes] minutes from the [place] to the [place].
        Take the [ordinal] street on the [side].
        How far is it to the [landmark]?""",
    "side": "left | right",
    "travel": """
        The [vehicle] to [city] is [minutes] minutes late.
        The [vehicle] from [city] arrives at [clock].
        When does the next [vehicle] to [city] leave?
        [person] is in [city].
        [person] lives in [city].
        I am going to [city] [when].
        We travel to [city] by [vehicle].
        Two tickets to [city], please.
        A ticket from [city] to [city], please.
        How long is the journey from [city] to [city]?
        My [thing] is on the [vehicle].
        The [vehicle] number [below_hundred] stops at the [place].""",
    "weather": """
        How is the weather in [city]?
        What will the weather be like [when]?
        It is [weather_word] and [weather_word] in [city].
        It will be [weather_word] [when].
        Tomorrow will be [weather_word].
        It is [below_hundred] degrees in [city].
        The temperature is minus [below_hundred] degrees.
        There will be [weather_thing] in the north [when].
        There was [weather_thing] in the [direction] and [weather_thing] in the [direction].
        The sun is shining.
        It is raining in [city].
        It is snowing in the [direction].
        The [season] was [weather_word] and very [weather_word].
        Take an umbrella, it is going to rain.""",
    "direction": "north | south | east | west",
    "shopping": """
        I would like [several] [measure] of [food].
        I would like some [food] and a cup of [food].
        How much are the [fruit]?
        How much is the [color] [thing]?
        We need [fruit], [fruit] and [food].
        Buy [several] [measure] of [food] and [several] [fruit].
        The [color] [thing] is too expensive.
        Do you have a [size] [color] [thing]?
        Put [food] on the list.
        Add [several] [fruit] to my shopping list.
        [number] dollars and [below_hundred] cents.
        I take the [color] [thing] and the [color] one.""",
    "people": """
        My name is [name].
        This is my [relative] [name].
        [person] is [below_hundred] years old.
        [name] and [name] are in the [room].
        [person] has a [size] [thing].
        [person] gave me a [color] [thing].
        Where is [person]?
        [person] comes home at [clock].
        [person] likes [food] with [food].
        Tell [person] that I am late.
        [person] works in a [place] in [city].
        Is [person] at home [when]?""",
    "office": """
        Please send the [job] to [person].
        I can not find the [job].
        The [job] has [number] pages.
        Write a [job] to [person].
        Open the [job] number [below_hundred].
        The [thing] is on the [color] table.
        The [thing] is under the chair in the [room].
        Put the [thing] into the [color] box.
        Bring me the [size] [thing], please.
        I have a meeting with [person] [when].
        Did you see my [thing]?""",
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
        You are welcome.
        Excuse me, please.
        I am sorry.
        See you [when].
        Have a nice day.
        I do not understand.
        Please speak more slowly.
        Can you help me?
        Goodbye.
        That is a good idea.
        I think so too.
        Of course.""",
    "question": """
        What is your name?
        Who is there?
        Where are you?
        What is this?
        Are you ready?
        Why is the [thing] [color]?
        Which [vehicle] goes to the [place]?
        How many [fruit] do we have?
        How old is [person]?
        Who has my [thing]?
        Can I have the [thing], please?
        What did [person] say?
        Do you speak English?
        Is it [color] or [color]?
        Can you hear me?
        What are we doing [when]?
        When does the [place] open?""",
    "linked": """
        [clause], and [clause].
        [clause], but [clause].
        [clause], then [clause].
        If it is [weather_word] [when], we go to the [place].
        When the [vehicle] arrives, call [person].
        First we go to the [place], then to the [place].
        [person] said that [clause].
        I know that [clause].""",
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
        I would like a cup of [food]
        it will be [weather_word] [when]
        we meet at the [place] at [clock]""",
}

RULES: dict[str, tuple[str, ...]] = {name: _split(text) for name, text in {**_WORDS, **_SENTENCES}.items()}
