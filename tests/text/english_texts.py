"""English texts and numbers for test_english.py."""

from __future__ import annotations

# Read as misaki reads them.
READ_ALIKE = [
    "Hello, world! This is a test of the new voice.",
    "Once upon a time there was a little girl named Lily, who loved to play in the park with her dog.",
    "I don't know what you're talking about, but I'll ask him.",
    "She couldn't believe her eyes: the children's toys were gone.",
    "The quick brown fox jumps over the lazy dog near the old apple tree.",
    "In 1984 there were 25 people; in 2005, 1,250; and in 1900 only 12.",
    "It costs $3.50, or $20, or £1.",
    "We walked 3.14 miles on the 21st of May.",
    "The NASA engineers talked to the FBI and the USA about the iPhone.",
    "Is it an apple or a pear? To eat or not to eat, that is the question.",
    "My friends' houses are bigger than James's house.",
    "They were wanting, waited, stopped, hoped, planned, running and swimming.",
    "Boxes, bushes, wishes, babies, cities, dogs, cats and foxes.",
    "The weather (which was bad) didn't help — not at all…",
    "What are you going to do with the rest of your life?",
    "Photosynthesis converts carbon dioxide into glucose using sunlight.",
    "He earned 1,000,000 dollars in the 2nd place.",
    "Thousands of butterflies were fluttering around the blossoming orchard.",
    "There's nothing we'd rather have than what they've already got.",
    "It's the dog's bone; its bone.",
    "The U.S. and the U.K. are in the U.N.",
    "She was born in the 1980s, in an old town.",
]
# Their phonemes in American English. What follows and what stands around tell how a word is said.
READ_BY_PLACE = [
    ("Can you read the book that I read yesterday?", "kˌæn ju ɹˈid ðə bˈʊk ðæt ˌI ɹˈɛd jˈɛstəɹdˌA?"),
    ("They live near a live wire.", "ðˌA lˈɪv nˌɪɹ ɐ lˈIv wˈIəɹ."),
    ("I object to that object.", "ˌI əbʤˈɛkt tə ðæt ˈɑbʤəkt."),
    ("We used to live here; they used an axe.", "wˌi jˈust tə lˈɪv hˈɪɹ; ðA jˈuzd ɐn ˈæks."),
    ("At 10:30, 10:05 or 7:00.", "ˌæt tˈɛn θˈɜɹTi, tˈɛn ˈO fˈIv ɔɹ sˈɛvən əklˈɑk."),
    ("$5 million, $1.05, €0.99", "fˈIv mˈɪljᵊn dˈɑləɹz, wˈʌn dˈɑləɹ ænd fˈIv sˈɛnts, nˈIndi nˈIn sˈɛnts"),
    ("-5 degrees, 50% & 2.3.1", "mˈInəs fˈIv dəɡɹˈiz, fˈɪfti pəɹsˈɛnt ænd tˈu pYnt θɹˈi pYnt wˈʌn"),
    ("Dr. Smith vs. Mrs. Jones", "dˈɑktəɹ smˈɪθ vˈɜɹsəs mˈɪsəz ʤˈOnz"),
    ("B52, H2O and PCs", "bˈi fˈɪfti tˈu, ˈAʧ tˈu ˈO ænd pˌisˈiz"),
    ('"Look," she said.', "“lˈʊk,” ʃi sˈɛd."),
    ("STOP THE CAR", "stˈɑp ðə kˈɑɹ"),
    ("café naïve", "kæfˈA nɑˈiv"),
]
NUMBERS = [
    *(
        ("cardinal", n)
        for n in (0, 7, 10, 13, 20, 21, 99, 100, 101, 115, 342, 1000, 1001, 12345, 100000, 1000000, 7000000042)
    ),
    *(("ordinal", n) for n in (1, 2, 3, 4, 5, 8, 9, 12, 13, 20, 21, 30, 42, 100, 101, 1000)),
    *(("year", n) for n in (1066, 1492, 1800, 1900, 1905, 1984, 1999, 2000, 2001, 2009, 2010, 2026, 1000, 1100)),
]
