"""Common words and what a definition of each may say; kinds of things and their members. Lists of the examiner's own.

A definition needs one of its word's marks: words (any ending) that a dictionary's definition would use. Marks are
chosen so that a definition of something else is unlikely to have one.
"""

from __future__ import annotations

DEFINITIONS: dict[str, str] = {
    line.split(":")[0].strip(): line.split(":")[1].strip()
    for line in """
    dog: animal pet canine bark mammal
    cat: animal pet feline meow mammal mouse
    bird: animal wing feather fly beak
    fish: animal water swim gill fin
    horse: animal ride mammal hoof rider
    cow: animal milk cattle farm mammal
    bee: insect honey sting fly
    tree: plant trunk branch leaf leaves wood
    flower: plant bloom blossom petal garden
    grass: plant green lawn ground meadow
    apple: fruit tree round
    bread: flour bake dough loaf wheat baked oven
    milk: drink liquid cow white
    water: liquid drink rain river sea wet clear
    sugar: sweet taste crystal
    salt: white taste mineral sea season
    house: building live home people
    door: open close enter room wall barrier entrance
    window: glass opening wall light see pane
    kitchen: room cook food
    bed: sleep furniture rest lie
    chair: seat sit furniture
    table: furniture flat legs top surface
    lamp: light
    clock: time hour tell
    knife: cut blade tool
    spoon: eat soup stir utensil food
    cup: drink container vessel tea
    bottle: liquid container glass drink neck
    key: lock open door
    hammer: nail tool hit strike
    rope: strong tie cord thick string fibre fiber
    shoe: foot feet wear
    hat: head wear
    coat: wear warm clothing garment cold clothes
    ring: finger circle round jewel band
    book: read page written story text
    pen: write ink writing
    letter: write alphabet message written send character
    newspaper: news read paper printed daily
    school: learn children teach pupil student
    teacher: school teach learn student pupil
    doctor: sick ill medicine patient health heal treat
    farmer: farm land crop animal grow field
    king: ruler rule country man crown
    soldier: army fight war
    baker: bread bake cake
    child: young person boy girl
    mother: parent woman child
    brother: boy parents sibling man son male
    friend: person like know trust someone
    neighbour: next near lives house
    hand: arm body finger hold
    eye: see sight body look vision
    heart: blood body organ pump love
    blood: red body liquid heart vein fluid
    bone: body hard skeleton
    river: water flow stream
    sea: water salt ocean large
    mountain: high hill land tall rock
    island: water land surrounded sea
    forest: tree wood
    desert: dry sand land rain hot
    sun: star light sky warm day heat
    moon: sky night earth planet satellite
    star: sky night light sun shape space
    rain: water fall drop cloud sky
    snow: white cold ice fall frozen winter water
    wind: air move blow
    storm: wind rain weather thunder
    winter: cold season year snow
    summer: season warm hot year
    night: dark sun day sleep time
    morning: day time early noon sun
    week: seven days
    year: months days twelve time
    car: drive road vehicle wheel engine
    train: rail track vehicle travel
    ship: boat sea water sail
    bicycle: wheel ride pedal vehicle two
    bridge: over river cross road
    road: travel way street car drive path
    city: town people large place
    village: small town people houses place
    shop: buy sell goods store
    market: buy sell goods place
    money: pay buy coin currency
    gold: metal yellow precious colour
    iron: metal hard strong clothes
    stone: rock hard
    fire: burn hot flame heat
    ice: frozen water cold solid
    music: sound song sing hear listen instrument
    song: sing music words
    dance: move music body
    game: play fun rules sport
    war: fight countries army battle
    peace: war quiet calm fight
    happy: glad joy feeling pleased good pleasure
    angry: feeling mad upset annoyed strong
    hungry: food eat
    brave: fear courage afraid danger
    quick: fast speed short time
    ancient: old long ago past
    empty: nothing inside contain full
    """.strip().splitlines()
}

MEMBERS: dict[str, str] = {
    "fruits": """apple banana pear plum cherry grape orange lemon lime mango peach apricot fig date melon
        kiwi pineapple strawberry raspberry blueberry blackberry papaya grapefruit coconut
        pomegranate watermelon berry""",
    "animals": """dog cat horse cow pig sheep goat lion tiger bear wolf fox rabbit mouse rat elephant
        giraffe monkey deer bird fish frog snake duck hen chicken goose owl eagle whale dolphin
        shark bee ant spider turtle camel zebra donkey squirrel hedgehog kangaroo penguin crow
        swan parrot seal otter hamster lizard crocodile hippo rhino cheetah panda""",
    "colours": """red green blue yellow orange purple pink brown black white grey gray violet cyan magenta
        turquoise gold silver beige maroon navy teal indigo crimson""",
    "vegetables": """carrot potato onion cabbage pea bean leek spinach lettuce tomato cucumber pepper broccoli
        cauliflower turnip beet beetroot celery garlic pumpkin radish corn kale aubergine zucchini
        asparagus squash""",
    "countries": """france germany italy spain portugal england scotland ireland norway sweden finland denmark
        poland russia china japan india canada mexico brazil chile peru egypt kenya nigeria
        morocco turkey greece austria switzerland belgium netherlands hungary australia argentina
        iceland korea vietnam thailand iran iraq america cuba ghana""",
    "sports": """football soccer tennis basketball hockey rugby cricket golf swimming running boxing
        baseball volleyball badminton skiing skating cycling rowing fencing judo handball
        wrestling sailing archery climbing gymnastics chess""",
    "parts of the body": """head hand foot feet arm leg eye ear nose mouth knee elbow finger toe neck shoulder back
        heart hair stomach chest tooth teeth chin lip tongue thumb skin ankle wrist hip lung brain
        face""",
    "musical instruments": """piano guitar violin flute drum trumpet cello harp clarinet saxophone organ trombone banjo
        oboe accordion viola bass tuba horn harmonica xylophone lute""",
    "pieces of furniture": """table chair bed sofa desk shelf bookshelf cupboard wardrobe stool bench couch cabinet
        drawer dresser armchair bookcase lamp""",
    "vehicles": """car bus train truck lorry van bicycle bike motorcycle tram plane airplane boat ship
        scooter tractor helicopter taxi ferry canoe sledge cart wagon subway""",
    "pieces of clothing": """shirt trousers coat hat sock shoe dress skirt jacket scarf glove sweater jumper belt tie
        blouse jeans boot cap pants shorts vest cardigan""",
    "drinks": """water milk tea coffee juice wine beer lemonade cocoa cider soda cola chocolate smoothie
        whisky rum""",
    "days of the week": """monday tuesday wednesday thursday friday saturday sunday""",
    "months": """january february march april may june july august september october november december""",
    "planets": """mercury venus earth mars jupiter saturn uranus neptune pluto""",
    "birds": """eagle owl sparrow robin crow pigeon dove duck goose swan parrot hawk falcon penguin
        ostrich hen chicken gull seagull raven stork heron magpie blackbird finch canary turkey
        peacock woodpecker swallow thrush lark""",
    "kitchen tools": """knife fork spoon pan pot bowl plate cup kettle whisk ladle grater spatula oven toaster
        peeler board rolling""",
    "trees": """oak pine birch maple beech elm willow ash fir spruce cedar poplar apple cherry chestnut
        palm lime linden larch yew""",
    "jobs": """teacher doctor nurse baker farmer driver cook chef pilot plumber carpenter painter writer
        lawyer engineer tailor butcher fisherman builder soldier singer actor dentist gardener
        mechanic sailor clerk waiter programmer""",
    "shapes": """circle square triangle rectangle star oval diamond cross hexagon pentagon cube sphere cone
        ellipse heart octagon rhombus cylinder""",
    "metals": """iron gold silver copper tin lead zinc steel aluminium aluminum nickel brass bronze
        platinum titanium mercury""",
    "insects": """ant bee wasp fly beetle butterfly moth mosquito cricket grasshopper ladybird ladybug
        dragonfly flea louse hornet""",
}
