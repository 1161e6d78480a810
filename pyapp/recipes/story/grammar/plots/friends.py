"""Stories among children: sharing, surprises, a trick that goes wrong."""

from __future__ import annotations

from pyapp.recipes.story.grammar.plots.plot import Plot
from pyapp.recipes.story.grammar.words import COLORS, FRUITS, TOYS

FRIENDS = (
    Plot(
        "sharing a toy",
        {"a": "child", "b": "child", "c": "family"},
        """
        @open_child

        For [a.his] birthday, [a] got a new [color] [toy] from [a.his] [c.kind]. {[A.he] loved it.|It was just what
        [a.he] wanted.} @day, [a.his] friend [b] came to play. "{What a nice toy|Wow, that is so nice}!" said [b]. "{Can
        I play with it|May I try it}?" "No!" said [a]. "{It is mine|It is my toy}." [B] {was sad and|said nothing and}
        went to sit {under a tree|by the fence}. [A] played alone. {At first, it was fun|It was fun for a while}. But
        soon [a] {was bored|felt lonely}. "{Why do you look so sad|What is wrong}, [a]?" asked [c]. "You have a new
        toy." "{It is no fun alone|The toy is not fun anymore}," said [a]. "{What could make it fun again|Do you know
        why}?" asked [c].

        Then [a] {went|ran} to [b]. "I am sorry, [b]," [a.he] said. "{I was not nice|I was wrong}. {You can play with it
        first|Let's share the toy}." [B] {smiled|jumped up}. "{Really? Thank you|Thank you}!" [b.he] said. "{And you can
        ride on my swing|I will share my cookies with you}." They {took turns|played together} {all afternoon|until it
        was dark} and made up a {new game|great game}. "{A toy is more fun with a friend|Sharing makes it twice as much
        fun}," said [a]. @friends_ab
        """,
        {
            "toy": TOYS,
            "color": COLORS,
        },
    ),
    Plot(
        "surprise party",
        {"a": "child", "b": "child", "c": "child", "d": "family"},
        """
        @open_child

        It was [a]'s birthday. {In the morning, [a.he] jumped out of bed.|[A.he] woke up early and was very excited.}
        {First|After breakfast}, [a.he] went to [b]'s house. "{Do you want to|Can we} play, [b]?" [a.he] asked. "{Sorry,
        I have no time|Not now}," said [b]. "I must [excuse]." {Then|So} [a] went to [c]. "{Sorry|Oh, sorry}, [a]," said
        [c]. "I {have to|must} [excuse2]." [A] {walked home slowly|went home with a sad face}. "{They forgot my
        birthday|Nobody knows what day it is}," [a.he] thought, and a tear {ran down [a.his] cheek|fell from [a.his]
        eye}. At home, it was very {quiet|dark}. "{Is anybody here|Hello}?" [a] {called|asked}. [A.he] opened the door
        to the {kitchen|living room|garden}.

        "Surprise!" There were [b], [c] and [a]'s [d.kind], and they all wore {funny|paper|colorful} hats! {There were
        balloons and a big [cake].|On the table stood a big [cake].} "{Happy birthday|Happy birthday to you}, [a]!" they
        {shouted|sang}. "{I thought you forgot me|I thought you had no time}!" said [a]. "{Never|Of course not}!" said
        [b], {laughing|with a laugh}. "{We had to keep it secret|We were busy with your party}." [A] {blew out the
        candles|laughed and cried a little} and {made a wish|hugged everyone}. {They danced and played games until the
        evening.|They ate cake and played all day.} "{This is the best birthday ever|I have the best friends in the
        world}," said [a].
        """,
        {
            "excuse": ("help my mom", "clean my room", "wash the dog", "do my homework"),
            "excuse2": ("feed the rabbits", "read a book", "go to the store", "play the piano"),
            "cake": ("chocolate cake", "strawberry cake", "lemon cake", "cherry cake"),
        },
    ),
    Plot(
        "sick friend",
        {"a": "child", "b": "child", "c": "family"},
        """
        @open_child {Every day, [a.he] played with [a.his] best friend [b].|[A.his] best friend was [b], who lived next
        door.}

        @day, [a] {knocked on [b]'s door|went to [b]'s house}. "{I'm sorry|Oh}, [b] {is sick|has a bad cold}," said
        [b]'s {mother|father}. "[B.he] {has to stay in bed|can't come out to play} {all week|for some days}." "{Poor
        [b]|That is no fun}," [a] said {to [a.his] [c.kind]|at home}. "What can I do to make [b.him] {happy|feel
        better}?" "{What does [b] like|What would you like if you were sick}?" asked [c]. [A] thought {hard|for a
        while}. "{I know|I have an idea}!" [a.he] said. "[idea]!" [work]

        {Then|In the afternoon}, [a] {brought|took} it to [b]. [B] {was in bed with a red nose|looked pale and tired}.
        But when [b.he] saw what [a] {had made|had brought}, [b.his] eyes {became bright|began to shine}. [B.he]
        {laughed|smiled} for the first time that {day|week}. "{Did you make this for me|Is it for me}?" [b.he] asked.
        "{Thank you|How nice}! {I feel better already|Now I am not so lonely}." {After three days|A few days later}, [b]
        was well again. They {ran and jumped|played} in the {garden|park} {all day|until dinner}. "{When you are sick, I
        will make something for you, too|A good friend is the best medicine}," said [b]. @smile_a
        """,
        {},
        (
            {
                "idea": "I will draw a {big|funny} picture",
                "work": (
                    "[A] {took all [a.his] colors|sat down} and drew {a lion in pajamas|a cow on a bike|a dancing "
                    "elephant}."
                ),
            },
            {
                "idea": "I will cook some soup",
                "work": (
                    "[C] cut the {carrots|onions}, and [a] put {noodles like little stars|peas and noodles} in the pot."
                ),
            },
            {
                "idea": "I will make a book with stories",
                "work": (
                    "[A] wrote {three|four} stories about {a brave snail|a flying pig}, and [c] helped with the "
                    "hard words."
                ),
            },
            {
                "idea": "I will make a puppet",
                "work": (
                    "[A] took an old {sock|glove} and {two buttons|some wool} and made a {funny|silly} "
                    "{lion|monkey|clown} puppet."
                ),
            },
        ),
    ),
    Plot(
        "first day of school",
        {"a": "child", "b": "child", "c": "family"},
        """
        @start a shy little [a.kind] named [a]. {[A.he] lived [home].|[A.he] loved to [hobby].}

        Today was [a]'s first day {of|at} school. [A.he] held [a.his] [c.kind]'s hand {tight|very tight}. "{What if
        nobody likes me|What if I have no friends}?" [a.he] asked. "{Just be yourself|Be kind}, and you will find a
        friend," said [c]. "{You will see|I promise}." {The classroom was big and loud.|There were many children in the
        classroom.} Everyone {talked|laughed}, but [a] {sat down in a corner|stood at the wall} and {looked at [a.his]
        shoes|said nothing}. The teacher was {very nice|friendly}, but [a] {was still @scared|wanted to go home}.

        Then [a] saw {another child|somebody} {under|behind} a {table|desk}. It was a [b.kind] with [look]. [B.he] {was
        crying|had tears in [b.his] eyes}. {At once, [a] forgot to be shy.|[A] went to [b.him].} "{Hello|Hi}, I'm [a],"
        [a.he] said {softly|quietly}. "{What is your name|Why are you crying}?" "{I am|My name is} [b]," said the
        [b.kind]. "{I don't know anybody here|I miss my mom}." "{Me, too|I feel the same}," said [a]. "{We can be shy
        together|Let's sit together}." [B] {wiped [b.his] eyes|smiled a little}. They {drew pictures|built a tower|read
        a book about {whales|trains|lions}} together and {shared a|ate a} [fruit] {at lunch|at noon}. {Soon other
        children came to play, too.|Soon they both laughed.} When [c] came {in the afternoon|after school}, [a] {ran to
        [c.him]|was still laughing}. "{Do I have to go home already|Can I come again tomorrow}?" [a.he] asked.
        """,
        {
            "fruit": FRUITS,
            "look": ("red shoes", "long hair", "curly hair", "a yellow jacket", "a green bag"),
        },
    ),
    Plot(
        "crying wolf",
        {"a": "child", "b": "family", "c": "child"},
        """
        @open_child [A.he] also loved to {play tricks|play tricks on people}.

        @day, [a] {stood|was} {at the lake|by the river}. "Help! Help! [danger]!" [a.he] {shouted|cried}. [B] and [c]
        {came running|ran as fast as they could}. But [a] only laughed. "{It was a trick|I fooled you}!" [a.he] said.
        "{That is not funny|That was not nice}," said [b]. {The next day|After lunch}, [a] did it again, and again they
        came. "{If you lie|When you lie}, {nobody will believe you|people stop believing you}," said [c].

        {Then, one evening|A week later}, it {really happened|happened for real}. [real] "Help! Help! [danger]!" [a]
        {screamed|cried}. [B] heard [a.him], but [b.he] {shook [b.his] head|did not get up}. "{It is only another
        trick|[A] is joking again}," [b.he] said. But [c] {stopped and listened|was not sure}. "{[A] sounds
        different|This time it sounds true}," [c.he] thought, and ran to see. [save] [A] {cried and|was safe now, and}
        hugged [c]. "{I am so sorry|I'm sorry for my tricks}," [a.he] said. "{I will never lie again|From now on, I will
        always tell the truth}." "{Good|I am glad}," said [c], "because {a friend must be able to trust you|I want to
        believe you}." And [a] kept [a.his] {word|promise}.
        """,
        {},
        (
            {
                "danger": "I fell into the water",
                "real": "[A] {slipped on a wet stone|lost [a.his] step} and fell into the cold water.",
                "save": "[C] {held out a long stick|threw a rope} and pulled [a] out.",
            },
            {
                "danger": "A big dog is after me",
                "real": "A {big|huge} black dog ran {after [a]|out of the woods}, and [a] climbed a tree.",
                "save": "[C] threw a stick, and the dog ran after it{ and played|}.",
            },
            {
                "danger": "My foot is stuck",
                "real": (
                    "[A] {played near|walked over} some rocks, and [a.his] foot {really got stuck|was stuck between "
                    "two of them}."
                ),
                "save": "[C] pushed {and pushed|with all [c.his] power} until the rock moved.",
            },
        ),
    ),
    Plot(
        "stray pet",
        {"a": "child", "b": "family:Mom,Dad", "c": "owner", "d": "pet:dog,cat,puppy,kitten"},
        """
        @open_child

        One {cold|rainy|windy} {evening|afternoon}, [a] heard {a sound at|something at} the door. {There sat|On the step
        sat} a {wet|thin|dirty} little [d.kind] with {big|sad|brown} eyes. "{Oh, you poor thing|You must be hungry},"
        said [a]. "{Can it|May it} come in, [b]? {Please|It is so cold}!" "{Yes, of course|Only for tonight}," said
        [a.his] [b.kind]. [A] {dried it with|put it on} a {soft|warm} towel and gave it {some milk|some meat|a bowl of
        food}. The [d.kind] {ate it all|was very hungry}. Then it {fell asleep on [a]'s feet|lay down by the fire}. "{It
        wears a small collar|Look, there is a collar}," said [b]. "{It must belong to somebody|Somebody may miss it}."
        [A] {was quiet|thought about it}. "{Then we must look for the owner|Let's find its home}," [a.he] said.

        {The next morning|In the morning}, they {asked in every house on the street|put up signs on the trees}. {At the
        last house|At a yellow house|At noon}, they found [d]'s owner. "{You found my [d]|There you are}!" [c.he]
        {cried|said}, and [d] {jumped into [c.his] arms|ran to [c.him]}. [A] {smiled, but [a.his] heart was heavy|was
        happy and sad at the same time}. [C] saw it. "{You know|Listen}, [a]," [c.he] said, "{I am old|my legs are
        tired}, and [d] {needs long walks|loves to play}. {Will you come and play with [d] every day|Would you help me
        with [d]}?" "{Yes! Yes|Oh, yes}!" said [a]. {So everybody was happy, and [d] most of all.|And so [a] and [d]
        became the best of friends.}
        """,
    ),
    Plot(
        "the show",
        {"a": "child", "b": "child", "c": "family"},
        """
        @open_child

        There was going to be a show {at school|in the village|in the town}. [A] wanted to [act]. [A.he] practiced every
        {day|evening} {in the garden|in front of the mirror}. [A.his] friend [b] {watched and clapped|helped [a.him]}.
        {At last|Then}, the {big day|evening of the show} came. [A] stood behind the curtain and {looked out|peeked
        out}. [A.his] knees {shook|began to shake}, and [a.his] mouth was dry. "{I can't do it|I can't go out there}. {I
        don't remember anything|I want to go home}!" [a.he] whispered. [B] took [a.his] hand. "{Look only at me|Don't
        look at the people}," [b.he] said. "{Do it as you do it in the garden|Do it just for me}. I will sit in the
        {first|front} row."

        [A] {took a deep breath|closed [a.his] eyes for a moment} and went out. {It was very quiet.|The light was very
        bright.} [A.he] saw [b], who {smiled|waved} at [a.him]. So [a] began. [perform] {When it was over|At the end},
        everybody {stood up and clapped|clapped and clapped}. {"That is my [a.kind]!" said [a.his] [c.kind].|[A.his]
        [c.kind] clapped the loudest.} "{I was so scared|My heart beat so fast}," [a] said to [b] {later|after the
        show}. "{But you did it|Being brave means to do it anyway}," said [b]. "{Thank you for your help|I could do it
        because of you}," said [a], and {they danced home|they ate ice cream together}.
        """,
        {},
        (
            {
                "act": "sing a song",
                "perform": (
                    "First [a.his] voice was {small|soft}, but then it {became clear and strong|filled the room}."
                ),
            },
            {
                "act": "dance",
                "perform": (
                    "First [a.his] steps were {small|slow}, but then [a.he] {jumped and turned like the wind|danced "
                    "like a leaf in the wind}."
                ),
            },
            {
                "act": "do a magic trick",
                "perform": (
                    "[A.he] {waved a stick|said a magic word} and pulled a {rabbit|long scarf|white flower} out of "
                    "{a|[a.his]} black hat."
                ),
            },
            {
                "act": "tell jokes",
                "perform": "The first joke was so funny that {a man fell off his chair|even the teacher laughed}.",
            },
        ),
    ),
)
