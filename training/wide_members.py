"""Kinds of things with their members, and how people speak of them without naming the kind.

A line is names | class | members | clauses. Class: m (of which there is some), c (which one counts), n (a name or a word as it is).
In a clause `{v}` is the member, `{a}` the member with its article, `{s}` the member in the plural.
"""

# ruff: noqa: E501  (a kind stands in one line)

KINDS = """
stone rock mineral building_stone|m|marble,granite,slate,limestone,sandstone,basalt,travertine,quartzite,soapstone,gneiss,chalk,flint,obsidian,pumice|the wall is built of {v}|they cut {v} there|all of it is {v}|{v} went out on the trucks|the steps are {v}
wood timber lumber|m|oak,pine,walnut,beech,cherry,larch,cedar,maple,teak,ash,birch,mahogany,spruce,bamboo|it is made of {v}|the planks are {v}|we sawed {v} all day|the frame was {v}|a floor of {v}
metal alloy ore|m|copper,zinc,tin,nickel,brass,bronze,steel,aluminium,lead,titanium,silver,iron,cobalt,pewter,cast iron|the parts are {v}|it was cast in {v}|they melted {v}|a plate of {v}|the pipes are {v}
fabric cloth textile material|m|linen,denim,velvet,wool,silk,cotton,corduroy,tweed,flannel,satin,canvas,felt,lace,muslin,jersey,chiffon|it is cut from {v}|sewn in {v}|a dress of {v}|we ordered {v}|the curtains are {v}
gem gemstone jewel precious_stone|c|ruby,emerald,sapphire,opal,topaz,garnet,amethyst,pearl,diamond,turquoise,moonstone,aquamarine|{a} sits in the middle|it is set with {a}|she wears {a}|the ring holds {a}
fish catch species seafood|c|trout,herring,cod,mackerel,salmon,pike,carp,eel,perch,halibut,sardine,tuna,sturgeon,haddock,anchovy,swordfish|the nets were full of {v}|{v} again today|they landed {v}|we fry {v} on Fridays|most of it was {v}
bird bird_species|c|heron,kestrel,robin,wren,magpie,stork,swallow,owl,puffin,goldfinch,woodpecker,kingfisher,cormorant,nightingale,cuckoo,lapwing|{a} nests up there|we heard {a}|{a} flew over the reeds|somebody saw {a}|{s} were on the wire
animal beast creature mammal|c|badger,otter,hedgehog,lynx,beaver,moose,weasel,wolf,raccoon,hare,wild boar,bison,porcupine,red squirrel,chamois,seal|{a} crossed the road|we followed {a}|{a} was in the trap|they keep {a}|it was {a}, I am sure
insect bug pest|c|wasp,hornet,beetle,locust,moth,termite,aphid,cricket,dragonfly,ladybird,mosquito,bumblebee,grasshopper,earwig,weevil|{s} are all over the leaves|{s} ate half of it|we found {s} under the bark|the trouble comes from {s}
tree tree_species|c|oak,elm,willow,chestnut,poplar,linden,hornbeam,sycamore,alder,rowan,plane tree,cypress,yew,silver birch|{a} stands by the gate|{a} fell in the storm|they planted {s}|the shade comes from {a}|{a} blocks the view
flower bloom blossom bouquet|c|tulip,dahlia,peony,lily,orchid,daffodil,carnation,iris,marigold,sunflower,hyacinth,snowdrop,cornflower,rose,gerbera|{s} stand in the window|she picked {s}|a bunch of {s}|{s} this spring|we sell {s} mostly
herb spice seasoning|m|basil,thyme,oregano,saffron,cumin,turmeric,rosemary,dill,sage,cinnamon,nutmeg,paprika,coriander,tarragon,bay leaf,star anise|it tastes of {v}|add {v} at the end|there is {v} in it|a pinch of {v}|season it with {v}
fruit harvest orchard_fruit|c|apple,pear,plum,cherry,apricot,quince,fig,peach,mango,pineapple,blackberry,raspberry,gooseberry,grapefruit,pomegranate,blood orange|{s} are ripe now|we picked {s}|a crate of {s}|{s} went into the jam|the trees bear {s}
vegetable crop produce|c|leek,carrot,beetroot,turnip,cabbage,pumpkin,artichoke,cauliflower,radish,parsnip,aubergine,courgette,onion,sweet potato,bell pepper|{s} grow here|he sows {s}|the field is full of {s}|{s} were sold out|soup of {s}
grain cereal crop|m|wheat,rye,barley,oats,maize,millet,buckwheat,spelt,rice,sorghum,quinoa|the silo holds {v}|they mill {v}|{v} was harvested|sacks of {v}|we sowed {v}
bread loaf bakery_item baked_good|c|baguette,pretzel,cornbread,sourdough,croissant,bagel,brioche,flatbread,rye loaf,focaccia,gingerbread,shortbread,cinnamon roll,muffin,crumpet|{v} sold best|we baked {v}|{v} was gone by nine|the oven is full of {v}|fresh {v}
cheese dairy|m|gouda,brie,feta,cheddar,gruyere,parmesan,camembert,mozzarella,blue cheese,goat cheese,ricotta,halloumi,emmental|{v} on the board|we aged {v}|a wheel of {v}|they make {v}|please wrap the {v}
drink beverage order|m|tea,coffee,lemonade,cider,cocoa,espresso,apple juice,ginger beer,mineral water,iced tea,hot chocolate,tomato juice,milkshake,green tea|he asked for {v}|{v} for table two|we served {v}|they drank {v}|{v} please
wine grape grape_variety|m|riesling,merlot,pinot noir,chardonnay,malbec,syrah,tempranillo,sauvignon blanc,cabernet,zinfandel|the slope grows {v}|we bottled {v}|a glass of {v}|{v} did well this year
dish meal main_course lunch|m|goulash,paella,lasagne,risotto,moussaka,ramen,shepherd's pie,fish stew,ratatouille,fried rice,pea soup,mushroom omelette,chicken curry,roast duck,potato salad|{v} is on the stove|we had {v}|they serve {v}|the guests got {v}|today it is {v}
dessert sweet pudding|m|tiramisu,cheesecake,apple strudel,ice cream,rice pudding,panna cotta,plum cake,chocolate mousse,lemon tart,pancakes,baklava,carrot cake,fruit salad|{v} to finish|everybody wanted {v}|{v} after that|she made {v}
flavour flavor taste scoop|m|vanilla,strawberry,pistachio,caramel,hazelnut,lemon,mint,coconut,peanut butter,dark chocolate,sour cherry,passion fruit|two scoops of {v}|he always takes {v}|it comes in {v}|{v} is the favorite
sauce dressing topping|m|mustard,ketchup,pesto,mayonnaise,gravy,soy sauce,mint sauce,garlic butter,horseradish,salsa,tahini|with {v} on top|{v} on the side|drowned in {v}|not without {v}
tool implement hand_tool|c|hammer,chisel,saw,rake,spade,drill,wrench,pickaxe,screwdriver,crowbar,trowel,wheelbarrow,sledgehammer,plane,spirit level,angle grinder|I need {a} for that|hand me the {v}|he used {a}|{a} is missing from the box|the {v} is back
instrument musical_instrument|c|cello,oboe,trumpet,harp,bassoon,violin,clarinet,accordion,mandolin,piano,double bass,french horn,tuba,flute,kettledrum|she plays the {v}|he practices the {v} every day|the {v} was out of tune|a solo for {v}|{a} in the case
vehicle car_type transport|c|tractor,van,lorry,scooter,motorbike,minibus,tram,bicycle,ambulance,pickup truck,fire engine,trailer,forklift,snowplough,hearse|{a} blocked the lane|they came in {a}|the {v} would not start|he drives {a}|{a} stood at the curb
boat vessel craft watercraft|c|kayak,ferry,barge,trawler,canoe,yacht,tugboat,catamaran,rowing boat,schooner,dinghy,gondola,lifeboat,houseboat|they crossed in {a}|{a} lay at the jetty|the {v} took on water|we rented {a}|{a} came up the river
aircraft plane flying_machine|c|glider,helicopter,biplane,seaplane,airship,jet,drone,hot-air balloon,microlight,cargo plane|{a} circled above us|they arrived by {v}|the {v} landed safely|{a} stood in the hangar
furniture piece piece_of_furniture|c|wardrobe,sofa,armchair,bookcase,stool,dresser,bunk bed,coffee table,desk,cradle,sideboard,rocking chair,bench,chest of drawers|{a} was delivered|we sold the {v}|the {v} has a scratch|{a} for the hall|he restores {a}
garment clothing clothes item_of_clothing|c|coat,scarf,cardigan,waistcoat,raincoat,skirt,blouse,pullover,kilt,dressing gown,jacket,tracksuit,apron,ball gown|she wore {a}|the {v} was torn|{a} was left on the seat|he knitted {a}|the {v} is too tight
shoe footwear pair|c|boot,sandal,slipper,sneaker,clog,moccasin,ballet shoe,rubber boot,hiking boot,flip-flop,loafer|the {s} were muddy|he wants {s}|{s} in size 41|a new sole for the {s}
hat headgear headwear|c|beret,bonnet,turban,helmet,cap,bowler hat,straw hat,top hat,sombrero,bobble hat|he had {a} on|{a} flew off in the wind|the {v} suits you|she never goes out without {a}
bag luggage container_type|c|suitcase,rucksack,handbag,briefcase,duffel bag,basket,trunk,crate,barrel,jar,jerrycan,tea chest,sack,carton|it came in {a}|{a} was left behind|we filled {a}|{a} stood unclaimed
weapon arm armament|c|sword,crossbow,dagger,spear,musket,cannon,halberd,sabre,longbow,battle axe|the knight carried {a}|{a} hangs over the door|a hit with {a}|they dug up {a}
toy plaything|c|doll,kite,yo-yo,spinning top,teddy bear,rocking horse,puppet,jigsaw,train set,building blocks,marble run,hula hoop|the child wanted {a}|{a} was under the tree|the {v} broke at once|{a} for her birthday
appliance device household_appliance|c|toaster,kettle,dishwasher,freezer,vacuum cleaner,blender,washing machine,oven,hair dryer,iron,fan heater,coffee grinder|the {v} makes a noise|{a} is out of order|they fixed the {v}|my {v} gave up|the {v} needs a part
gadget electronics equipment|c|laptop,tablet,headset,router,smartwatch,printer,projector,webcam,e-reader,games console,power bank,keyboard|the {v} will not turn on|{a} was stolen|we lent out {a}|he returned the {v}
sport discipline game_played|m|hockey,rowing,fencing,judo,badminton,archery,handball,cricket,water polo,figure skating,table tennis,rugby,volleyball,ice hockey,weightlifting|she trains {v}|they are good at {v}|he gave up {v}|{v} is what they play|a medal in {v}
dance style_of_dance|m|tango,waltz,salsa,flamenco,ballet,polka,foxtrot,rumba,tap dance,square dance,breakdance,swing|they learn {v}|we danced {v} all night|{v} on Tuesdays|she teaches {v}
music genre music_style|m|jazz,blues,techno,folk,opera,reggae,swing,heavy metal,hip hop,chamber music,bluegrass,soul,punk|they play {v}|{v} came from the speakers|he only listens to {v}|an evening of {v}
game board_game pastime|m|chess,dominoes,backgammon,poker,bridge,draughts,bingo,hide and seek,charades,solitaire,snakes and ladders,mahjong|they sat over {v}|we played {v}|he lost at {v}|{v} until midnight
hobby interest leisure activity|m|knitting,pottery,fishing,gardening,birdwatching,stamp collecting,photography,origami,calligraphy,bee-keeping,rock climbing,woodcarving,horse riding,model building|{v} keeps him busy|she spends her Sundays {v}|he took up {v}|I found out she likes {v}
language tongue spoken_language|n|Finnish,Basque,Swahili,Portuguese,Korean,Welsh,Hungarian,Turkish,Dutch,Hindi,Greek,Arabic,Latin,Sign Language,Norwegian|she grew up with {v}|the talk is in {v}|they only speak {v}|it was translated into {v}|he reads {v}
subject school_subject topic|m|algebra,geography,chemistry,history,biology,physics,grammar,geometry,astronomy,philosophy,economics,woodwork,art history|he teaches {v}|we talked about {v}|she failed {v}|{v} is on the timetable|a book about {v}
science field discipline research_area|m|botany,geology,linguistics,zoology,astronomy,oceanography,archaeology,genetics,meteorology,robotics,entomology,computer science|her work is in {v}|he took his degree in {v}|they do research in {v}|a grant for {v}
illness disease diagnosis complaint|m|measles,flu,bronchitis,asthma,mumps,chickenpox,pneumonia,diabetes,hay fever,tonsillitis,a sprained ankle,food poisoning,migraine,scarlet fever|it turned out to be {v}|he is in bed with {v}|she was treated for {v}|they think it is {v}|down with {v}
symptom sign trouble|m|fever,a rash,dizziness,a sore throat,back pain,nausea,a cough,a headache,swelling,shortness of breath,stomach ache|she complains of {v}|he came in with {v}|it began with {v}|{v} since yesterday
medicine drug remedy medication|m|aspirin,penicillin,ibuprofen,insulin,cough syrup,paracetamol,antibiotics,eye drops,iron tablets,antihistamine,cortisone|they gave her {v}|he takes {v}|{v} was prescribed|she is allergic to {v}
crime offence charge|m|burglary,forgery,fraud,arson,theft,smuggling,vandalism,bribery,blackmail,pickpocketing,speeding,tax evasion|he was arrested for {v}|the case is one of {v}|they suspect {v}|she stands accused of {v}
weather conditions sky|m|rain,fog,hail,drizzle,sunshine,sleet,thunderstorms,snow,frost,heavy showers,light wind,freezing rain|they expect {v}|we had {v} all morning|{v} kept the boats in|{v} from noon on|all we got was {v}
disaster event_type hazard|c|flood,earthquake,landslide,avalanche,drought,wildfire,hurricane,tornado,volcanic eruption,tsunami,heat wave|{a} hit the valley|the road was closed after {a}|they lost everything in {a}|{a} is feared
profession occupation trade job|c|plumber,notary,midwife,beekeeper,blacksmith,glazier,surveyor,translator,welder,optician,florist,locksmith,taxi driver,piano tuner,crane operator|she works as {a}|he is {a} by trade|they hired {a}|we are looking for {a}|his mother was {a}
colour color shade paint|m|crimson,turquoise,ochre,navy blue,beige,lilac,olive green,maroon,ivory,mustard yellow,charcoal,salmon pink,scarlet|they painted it {v}|it comes in {v}|{v} was chosen for the door|I would like it in {v}|the roof is {v}
pattern print motif|m|stripes,polka dots,checks,herringbone,paisley,zigzag,tartan,houndstooth,leopard print,flowers|it has {v} all over|printed with {v}|I prefer {v}|the wallpaper shows {v}
shape form outline|c|oval,square,heart,crescent,pyramid,cube,ring,star,hexagon,cone,teardrop,cylinder|it is cut as {a}|the pool has the outline of {a}|it looks like {a}|they built it as {a}
room chamber space|c|pantry,cellar,attic,nursery,study,bathroom,hall,conservatory,laundry,guest room,kitchen,dining room,boiler room|the leak is in the {v}|we painted the {v}|the {v} is too small|it happened in the {v}|they meet in the {v}
building structure premises|c|chapel,barn,lighthouse,windmill,warehouse,castle,bungalow,town hall,sawmill,watchtower,greenhouse,observatory,boathouse,fire station|{a} stands there|they pulled down the {v}|the {v} is for sale|they turned it into {a}|lightning struck the {v}
landform landscape terrain feature|c|glacier,canyon,peninsula,volcano,waterfall,marsh,plateau,dune,cave,coral reef,fjord,gorge,hot spring|the trail leads to {a}|{a} lies behind the hill|we camped near {a}|the map shows {a} there
road_type street_type way|c|bridge,tunnel,roundabout,footpath,motorway,cycle lane,level crossing,alley,pass,towpath|the {v} is closed|it happened on the {v}|take the {v}|they repaired the {v}
fuel energy_source heating_fuel|m|diesel,petrol,kerosene,charcoal,firewood,natural gas,heating oil,wood pellets,coal,hydrogen,biogas,peat|it runs on {v}|the tank holds {v}|we heat with {v}|they ran out of {v}|a delivery of {v}
chemical substance compound|m|ammonia,chlorine,acetone,bleach,glycerine,sulphur,hydrogen peroxide,caustic soda,methanol,salt,potash,nitric acid|a drum of {v} leaked|the sample contains {v}|they spilled {v}|handle the {v} with gloves
gas vapour vapor|m|helium,oxygen,methane,neon,argon,propane,nitrogen,carbon dioxide,steam,butane|the bottle is filled with {v}|{v} escaped|they measured {v}|it floats on {v}
planet celestial_body heavenly_body|n|Saturn,Venus,Mars,Jupiter,Neptune,Mercury,Uranus,Halley's Comet,Orion,the Moon|they pointed the telescope at {v}|{v} was easy to see|we watched {v} rise|the probe is on its way to {v}
component spare_part part|c|gearbox,piston,spark plug,fan belt,gasket,valve,clutch,ball bearing,circuit board,fuse,crankshaft,radiator,brake pad|the {v} must be replaced|we ordered {a}|it was the {v} that broke|the {v} is worn out
fastener fixing hardware|c|screw,nail,bolt,rivet,staple,hook,hinge,padlock,wall plug,washer,cable tie|a box of {s}|we are out of {s}|held together by {s}|he counted the {s}
stationery office_supply supplies|c|pencil,stapler,envelope,notebook,eraser,paper clip,fountain pen,ruler,ring binder,highlighter,stamp pad|we need more {s}|{s} for the whole office|the {s} came today|he ordered {s}
book_type publication document_type|c|novel,atlas,dictionary,cookbook,biography,diary,comic,travel guide,encyclopedia,songbook,thriller,almanac|she borrowed {a}|{a} was returned late|it is {a}, really|they printed {a}
film_genre genre programme_type|c|western,comedy,thriller,musical,documentary,cartoon,horror film,love story,quiz show,crime series,soap opera|it is {a}|we watched {a}|they are shooting {a}|{a} runs tonight
artwork art_form medium technique|c|watercolour,etching,woodcut,sculpture,mosaic,oil painting,tapestry,fresco,charcoal drawing,photograph,linocut,collage|the artist shows {a}|{a} hangs there|they auctioned {a}|it is {a}, signed
event occasion celebration gathering|c|wedding,auction,funeral,birthday party,flea market,concert,raffle,street festival,graduation,housewarming,village fete,book fair,school reunion|they met at {a}|the hall is booked for {a}|{a} keeps us busy that day|it rained during the {v}
holiday feast festival public_holiday|n|Easter,Christmas,Diwali,Thanksgiving,Hanukkah,New Year's Eve,Carnival,Midsummer,Halloween,Ramadan,May Day|we close at {v}|they travel over {v}|it is a custom at {v}|{v} is when they come
religion faith belief|m|Buddhism,Islam,Judaism,Hinduism,Christianity,Sikhism,Shinto,Taoism|the temple belongs to {v}|she converted to {v}|he wrote about {v}
relative relation family_member kin|c|aunt,nephew,grandmother,cousin,brother-in-law,stepson,uncle,twin sister,godfather,mother-in-law,niece|her {v} found it|my {v} will pick it up|a {v} of the groom|his {v} signed for it
emotion mood feeling|m|joy,anger,envy,pride,grief,relief,boredom,homesickness,curiosity,shame,excitement,despair|the letter was full of {v}|she felt nothing but {v}|{v} was written on his face|he spoke with {v}
virtue quality strength trait|m|patience,courage,honesty,humour,generosity,punctuality,modesty,loyalty,tact,self-control|{v} is what he is known for|they praised her {v}|she has {v}|it takes {v}
body_part limb organ injured_part|c|ankle,elbow,shoulder,knee,wrist,thumb,collarbone,kidney,jaw,hip,eardrum,big toe|he hurt his {v}|the {v} is swollen|they operated on her {v}|the X-ray shows the {v}
pet house_pet companion_animal|c|hamster,parrot,goldfish,guinea pig,canary,tortoise,rabbit,budgie,poodle,ferret,tabby cat,gecko|they have {a}|the {v} needs a sitter|their {v} ran away|{a} lives with them
livestock farm_animal herd|c|sheep,goat,pig,cow,goose,alpaca,turkey,donkey,duck,hen,water buffalo|he keeps {s}|{s} graze there|they sold the {s}|{s} broke through the fence
breed dog_breed dog|c|terrier,dachshund,collie,husky,spaniel,beagle,greyhound,boxer,border collie,golden retriever,bulldog,sheepdog|{a} was found|he walks {a}|the {v} won first prize|she has {a}
currency money_unit tender|c|euro,krona,peso,rupee,yen,zloty,dinar,franc,pound,real,Swiss franc|they paid in {s}|the bill is in {s}|he changed it into {s}|the safe was full of {s}
continent world_region part_of_the_world|n|Africa,Asia,Europe,South America,Antarctica,Oceania,North America,Scandinavia,the Middle East|the expedition goes to {v}|it comes from {v}|they toured {v}|it is found in {v}
nation nationality_country homeland|n|Portugal,Kenya,Norway,Peru,Vietnam,Canada,Morocco,Iceland,Poland,New Zealand,Japan,Chile,Sri Lanka|she was born in {v}|it was made in {v}|they emigrated to {v}|he plays for {v}
season time_of_year|n|spring,summer,autumn,winter,late summer,early spring|they harvest in {v}|we open in {v}|it was {v}|every {v} they come back
month calendar_month|n|January,March,April,June,July,August,September,October,November,December|it is due in {v}|they moved in {v}|we met in {v}|{v} is the best time for it
weekday day_of_week|n|Monday,Tuesday,Wednesday,Thursday,Friday,Saturday,Sunday|it is every {v}|they come on {v}|see you {v}|{v} suits us
direction heading compass_direction|n|north,south,east,west,north-east,south-west,north-west,south-east|it drifts {v}|the wind blows from the {v}|they marched {v}|the window faces {v}
payment payment_method paid_by|n|cash,cheque,credit card,bank transfer,voucher,invoice,direct debit,gift card,instalments|they paid by {v}|he settled it with {v}|{v} was accepted|she wants to pay by {v}
crop_damage cause reason|m|frost,mould,rust,overheating,a short circuit,human error,a burst pipe,metal fatigue,a loose wire,bad maintenance,lightning|it was due to {v}|{v} is to blame|they put it down to {v}|the report names {v}
service repair_type work|m|roof repair,window cleaning,tree felling,pest control,chimney sweeping,carpet cleaning,wiring,plastering,tiling,hedge trimming,snow clearing|they asked for {v}|the bill is for {v}|he does {v}|we booked {v}
treatment therapy procedure|m|massage,acupuncture,surgery,physiotherapy,dialysis,root canal treatment,vaccination,hypnosis,blood transfusion,mud bath|she gets {v}|they advised {v}|{v} helped him|he came for {v}
transport_mode mode travel_by|n|train,bus,ferry,bicycle,taxi,sledge,cable car,tram,sleeper train,horse and cart,underground|they went by {v}|we came by {v}|you can only get there by {v}|he travels by {v}
ingredient filling main_ingredient|m|lentils,spinach,almonds,honey,minced beef,chickpeas,smoked salmon,leeks,walnuts,potatoes,red cabbage,sour cream,egg noodles|it is full of {v}|you need {v} for it|stuffed with {v}|they left out the {v}
goods cargo freight load|m|bananas,cement,timber,coal,fertilizer,bicycles,olive oil,frozen fish,sugar beet,scrap metal,furniture,salt,cotton,tractor tyres,gravel|she carried {v}|the hold was full of {v}|the trucks bring {v}|they unloaded {v}|{v} lay on the quay
product article merchandise|m|candles,soap,honey,umbrellas,clocks,rope,baskets,glassware,wool blankets,leather belts,garden gnomes,fishing rods,door handles|they sell {v}|the shop is known for {v}|we ordered {v}|the stall had {v}
allergen allergy intolerance|m|peanuts,gluten,shellfish,lactose,pollen,cat hair,eggs,soya,bee stings,house dust,celery|he cannot have {v}|she reacts to {v}|no {v} for this guest|watch out for {v}
plant houseplant potted_plant|c|fern,cactus,ivy,rubber plant,aloe,spider plant,bonsai,yucca,rosebush,lavender,holly,fuchsia|{a} stands on the sill|the {v} needs water|{a} was repotted|she gave me {a}
mushroom fungus|c|chanterelle,porcini,truffle,morel,puffball,fly agaric,oyster mushroom,shiitake,parasol mushroom|{s} came up after the rain|they found {s}|{s} were in the basket
nut seed kernel|c|almond,walnut,hazelnut,cashew,pistachio,pecan,sunflower seed,pumpkin seed,pine nut,brazil nut|a bag of {s}|{s} go in last|they roast {s}|he cracked {s}
meat cut joint|m|beef,lamb,pork,veal,venison,mutton,turkey breast,bacon,ham,lamb chops,rump steak,minced veal|they roasted {v}|the butcher recommends {v}|{v} went into the pot|we sold {v}
oil fat cooking_fat|m|butter,lard,margarine,olive oil,sunflower oil,sesame oil,goose fat,coconut oil|fry it in {v}|{v} ran out|a spoon of {v}
gift present prize award|c|teapot,hamper,medal,trophy,bouquet,wristwatch,gold cup,theatre ticket,silver spoon,cookbook,music box,bottle of port|the winner got {a}|they gave him {a}|she unwrapped {a}|{a} for the retiring caretaker
vice habit weakness|m|smoking,gambling,nail-biting,gossip,oversleeping,snoring,lying,laziness,swearing|he gave up {v}|{v} cost him the job|she cannot stop {v}
ceremony rite ritual|c|baptism,wedding,funeral,coronation,inauguration,ribbon cutting,blessing,tea ceremony|they attended the {v}|{a} took place there|he spoke at the {v}
style era period architecture|n|baroque,gothic,art nouveau,rococo,bauhaus,romanesque,neoclassical,victorian|the house is {v}|it was built in the {v} manner|a {v} facade
theme motto subject_matter|n|pirates,outer space,the seaside,the jungle,dinosaurs,the circus,fairy tales,the wild west,under the sea|the party was all about {v}|the decorations show {v}|everybody dressed for {v}
software program_type application|c|spreadsheet,web browser,text editor,database,screen reader,compiler,calendar app,password manager,mail client,media player|the {v} crashed|they installed {a}|an update for the {v}|he wrote {a}
file_format format extension|n|PDF,CSV,PNG,plain text,JSON,MP3,XML,ZIP,Markdown|send it as {v}|it was saved as {v}|they want {v}|the export is in {v}
unit_of_army branch troop|n|infantry,cavalry,artillery,navy,air force,engineers,mountain troops,paratroopers|he served in the {v}|the {v} moved first|they joined the {v}
rank grade position|c|sergeant,captain,colonel,admiral,lieutenant,corporal,major,midshipman,brigadier|she was made {v}|he retired as {v}|they promoted him to {v}
stroke event_swum swimming_style|n|backstroke,butterfly,breaststroke,freestyle,medley relay,front crawl|she swam {v}|he won in {v}|they timed the {v}
playing_position position_played role|c|goalkeeper,striker,midfielder,left back,winger,pitcher,fly-half,sweeper,centre forward|he plays as {v}|they need a new {v}|she started as {v}
voice part vocal_range|n|soprano,tenor,alto,bass,baritone,mezzo-soprano,countertenor|she sings {v}|the choir lacks a {v}|he was cast as {v}
habitat environment biome|n|desert,rainforest,salt marsh,steppe,tundra,heathland,river delta,pine forest,coral reef,high moor|it lives in {v}|they are found in {v}|it was filmed in {v}
tax_class category section department aisle|n|toys,gardening,household goods,sportswear,electronics,stationery,pet food,frozen food,menswear,cosmetics|you find it under {v}|it was filed under {v}|she works in {v}|it belongs to {v}
noise sound alarm_sound|m|hammering,barking,a siren,drilling,loud music,a humming,church bells,rattling,footsteps,a whistle|the neighbors report {v}|{v} woke everybody|all we hear is {v}|there was {v}
smell scent fragrance aroma|m|lavender,vanilla,petrol,fresh paint,burnt sugar,sandalwood,lemon peel,wet dog,pine resin,mothballs|it smells of {v}|there was a whiff of {v}|the candle gives off {v}|the room was full of {v}
defect fault problem issue|m|a cracked screen,a leaking tap,a flat tyre,a loose handle,a missing button,a stuck drawer,a dead battery,peeling paint,a blown fuse,a bent spoke|it came with {v}|the customer mentions {v}|there is {v}|they noticed {v}
find discovery artefact relic|c|coin,amphora,brooch,skull,stone axe,clay pot,bone comb,arrowhead,iron buckle,bead necklace,oil lamp|they dug up {a}|{a} came to light|the trench held {a}|it is {a}, they say
exhibit specimen display|c|fossil,meteorite,sarcophagus,suit of armour,stuffed owl,steam engine,dinosaur egg,mummy,war drum,whale skeleton|the main hall shows {a}|visitors crowd around the {v}|{a} is on loan|they dusted the {v}
attraction sight ride|c|ferris wheel,cathedral,aquarium,roller coaster,botanical garden,wax museum,ghost train,merry-go-round,viewing platform,maze|everyone wants to see the {v}|the {v} was closed|we spent the day at the {v}
accommodation lodging place_to_stay|c|hostel,guesthouse,campsite,cottage,caravan,treehouse,mountain hut,motel,farmhouse,igloo|they slept in {a}|we booked {a}|{a} with a view|he rents {a}
obstacle hurdle hindrance|c|fallen tree,locked gate,snowdrift,broken bridge,rockfall,traffic jam,strike,herd of cows,burst water main|{a} stopped them|they had to wait because of {a}|{a} lay in the way
tool_brand maker brand_kind supplier_type|c|cooperative,wholesaler,market stall,mail-order firm,farm shop,factory outlet,auction house,pawnshop|we got it from {a}|it was bought at {a}|{a} delivers it
"""

# Names that are given: names | how | clauses. How: w (words), x (invented), l (somebody's name), t (a town's).
NAMES = """
ship steamer freighter liner|xwt|the {v} sailed at dawn|aboard the {v}|the {v} lies at the quay|she is called the {v}|the {v} docked late
hotel inn lodge|wlx|they stayed at the {v}|rooms at the {v} are full|the {v} has a new cook|checked in at the {v}
pub tavern bar|w|we met in the {v}|last orders at the {v}|the {v} has a garden
restaurant bistro diner cafe|wlx|table for us at {v}|the food at {v} was cold|we ate at {v}
band group act|wx|{v} opened the evening|tickets for {v} are gone|{v} played for two hours
team club side|wt|{v} won at home|{v} lost again|he signed for {v}
horse racehorse mare|wx|{v} came in first|nobody had bet on {v}|{v} lost a shoe
newspaper magazine journal gazette|wt|she writes for the {v}|it was in the {v}|the {v} printed it
street road lane avenue|lw|they live on {v} Street|turn into {v} Lane|the house on {v} Road
river stream waterway|x|the {v} burst its banks|we paddled down the {v}|a bridge over the {v}
mountain peak summit|xw|they climbed {v}|{v} is covered in snow|the view from {v}
island isle islet|xw|the ferry goes to {v}|they were stranded on {v}|nobody lives on {v}
castle fortress palace|xt|{v} stands on a rock|a tour of {v}|they restored {v}
bridge viaduct crossing|lx|they closed the {v} bridge|traffic stood on the {v}|the {v} was built by hand
museum gallery collection|lt|it hangs in the {v}|the {v} bought it|free entry to the {v}
theatre theater playhouse venue|wl|it runs at the {v}|the {v} was sold out|curtain up at the {v}
school academy college|lt|she goes to {v}|the pupils of {v}|he teaches at {v}
company firm employer manufacturer|lx|{v} makes them|he has worked for {v} for years|a letter from {v}|{v} went bankrupt
brand make label|x|it is a {v}|only {v} will do|a new one from {v}
bank lender insurer|lw|the loan is from {v}|she is insured with {v}|{v} refused
airline carrier operator|wx|we flew with {v}|{v} canceled the flight|{v} lost my bag
book novel title bestseller|w|I am reading "{v}"|"{v}" was out of print|she wrote "{v}"
song tune track hit|w|they sang "{v}"|"{v}" was on the radio|everyone knows "{v}"
film movie picture|w|we saw "{v}"|"{v}" won a prize|they are showing "{v}"
play opera musical|w|the curtain rose on "{v}"|she got a part in "{v}"|"{v}" had its premiere
painting canvas artwork|w|"{v}" was sold|the thieves took "{v}"|they hung "{v}" in the hall
dog puppy hound|f|{v} barked all night|{v} buried a bone|they call him {v}
cat kitten tomcat|f|{v} sat in the window|{v} caught a mouse|we feed {v}
project program campaign initiative|wx|we call it {v}|{v} starts soon|money for {v}
recipe signature_dish special|w|our "{v}" is a favorite|they ordered the "{v}"|today's special is called "{v}"
farm ranch estate|lw|the eggs are from {v}|the cows of {v}|they bought {v}
mine pit quarry|lw|he worked at {v}|{v} was closed|the men of {v}
station stop terminal|lt|change at {v}|we got off at {v}|the train stood at {v}
airport airfield hub|t|we land at {v}|delays at {v}|they are stuck at {v}
port harbour harbor anchorage|t|bound for {v}|they put in at {v}|she left {v} at noon
village hamlet settlement|t|people in {v} say so|the church of {v}|it was in {v}
district quarter neighborhood borough|xt|they moved to {v}|rents in {v} went up|the shops of {v}
valley gorge pass|x|the road through {v}|snow fell in {v}|the sheep of {v}
lake reservoir pond|x|they swim in {v}|the fish of {v}|{v} was frozen
forest wood woodland|xl|a path through {v}|they got lost in {v}|the deer of {v}
server host machine|k|{v} does not answer|they rebooted {v}|the job ran on {v}
variety cultivar strain|wx|it is called {v}|we planted {v}|{v} does well here
trail route hike|w|they walked the {v}|the {v} is marked in red|rain on the {v}
prize trophy cup|l|they gave her the {v}|she won the {v}|the {v} went abroad
ward unit wing|w|he lies in {v}|the nurses of {v}|moved to {v}
robot droid rover|xk|{v} fell over|they named it {v}|the battery of {v} died
"""

# Numbers: names | least-most | clauses.
NUMBERS = """
tonnes tons weight_t load_t|2-900|{n} tonnes in all|it came to {n} tonnes|{n} t|the scale said {n} tonnes
kilos kg weight_kg weight|1-400|it weighs {n} kg|{n} kilos|they weighed in {n} kg|{n} kilos of it
liters litres volume_l capacity_l|1-900|{n} liters|it holds {n} liters|they filled {n} liters
meters length_m width_m height_m|1-300|it is {n} meters across|{n} meters of it|they measured {n} m
kilometers km distance distance_km|1-900|{n} km from here|it is {n} kilometers off|they covered {n} km
hours duration hours_worked time_spent|1-72|it took {n} hours|{n} hours of work|after {n} hours
minutes duration_min delay wait|2-180|{n} minutes late|it lasts {n} minutes|they waited {n} minutes
days duration_days nights stay|1-60|for {n} days|it goes on for {n} days|{n} days in all
weeks deadline_weeks period|1-40|within {n} weeks|{n} weeks from now|it runs {n} weeks
years age age_years|1-120|it is {n} years old|after {n} years|{n} years now
euros price cost fee|1-950|for {n} euros|it costs {n} euros|{n} euros changed hands|they want {n} euros
dollars budget sum amount_paid|1-990|{n} dollars|they paid {n} dollars|a budget of {n} dollars
deposit advance down_payment|5-500|{n} were paid in advance|{n} down|we hold {n} until you return it
discount rebate percent_off|2-70|{n} percent off|they knocked off {n} percent|{n}% less
crew crew_size hands sailors|2-90|{n} hands on board|a crew of {n}|{n} men and women run her
passengers riders travelers|1-300|{n} people were on board|with {n} passengers|{n} got off
guests visitors attendance people|2-900|{n} people came|we expect {n}|{n} visitors|there will be {n} of us
pupils students class_size|3-300|{n} children are enrolled|{n} students signed up|a class of {n}
members strength headcount staff|2-800|{n} people belong to it|{n} on the payroll|it has {n} members
boxes crates parcels packages|1-300|{n} boxes of it|packed in {n} crates|{n} boxes arrived
bottles jars cans|2-600|{n} bottles of it|they filled {n} jars|{n} bottles left
sacks bags bales|2-400|{n} sacks of it|{n} bags came in|stacked in {n} bales
pieces units quantity items|1-900|{n} of them|we need {n}|{n} pieces|in a lot of {n}
pages length page_count|4-900|{n} pages|it runs to {n} pages|after {n} pages
copies print_run edition_size|10-990|{n} copies|they printed {n}|{n} were sold
seats places capacity|4-900|it seats {n}|room for {n}|{n} seats
rooms bedrooms|1-40|it has {n} rooms|{n} bedrooms|{n} rooms to let
floors storeys stories levels|2-60|{n} floors high|it has {n} storeys|up {n} floors
floor floor_number storey|1-30|on floor {n}|{n} flights up|up on the {n}th floor
room_number room chamber_no|1-400|room {n}|in number {n}|the key to {n}
gate platform track|1-40|it leaves from {n}|go to platform {n}|gate {n}
lane row aisle_number|1-40|lane {n}|row {n}|it is in aisle {n}
table table_number|1-40|table {n}|they sit at {n}|the people at table {n}
acres hectares area_ha|1-500|{n} hectares|on {n} acres|the land measures {n} hectares
trees plants rows|3-800|{n} trees in a line|they set {n} of them|{n} plants
score points result|1-99|with {n} points|the jury gave {n}|it scored {n}
goals runs tries|1-15|{n} goals|they scored {n} times|{n} in the second half
wins victories titles|1-60|{n} wins so far|it won {n} times|champions {n} times
laps rounds stages|2-90|{n} laps|after {n} rounds|{n} times around
speed speed_kmh knots|5-300|at {n} km/h|doing {n} an hour|it moved at {n} knots
degrees temperature temp_c heat|1-260|{n} degrees|at {n} degrees|the thermometer showed {n}
depth depth_m fathoms|1-400|{n} meters down|at a depth of {n} meters|{n} m below
altitude elevation height|10-990|{n} meters up|at {n} m above the sea|it lies {n} meters high
voltage volts power watts|3-900|it takes {n} volts|{n} watts|rated at {n}
injured casualties victims hurt|1-40|{n} were hurt|{n} people went to hospital|{n} injured
errors faults complaints|1-90|{n} errors|{n} people complained|we counted {n} faults
stars rating grade|1-5|{n} stars|I give it {n} of 5|rated {n}
doses tablets pills|1-30|{n} tablets|{n} a day|a dose of {n}
eggs spoons cups servings|1-24|it serves {n}|{n} portions|enough for {n}
wheels axles doors|2-12|with {n} wheels|it has {n} doors|{n} axles
teeth legs arms|2-40|it has {n} legs|{n} teeth are left|with {n} arms
founded built year_built opened|1302-2024|it was built in {n}|since {n}|it dates from {n}
episode chapter volume_no|1-60|episode {n}|chapter {n}|number {n} of the series
order_number ticket_number case_number invoice_no|100-9999|number {n}|under {n}|see order {n}|ticket {n}
"""

# Persons: names | clauses.
PERSONS = """
foreman supervisor overseer shift_leader|{p} runs the shift|under {p}|foreman {p}|{p} gave the orders|signed by {p}
captain skipper master|{p} is in command|skipper {p}|{p} at the helm|under {p}
owner proprietor landlord holder|it belongs to {p}|{p} owns it|the property of {p}|{p} is the owner
buyer customer client purchaser|{p} took it|it went to {p}|{p} pays for it|ordered by {p}
seller vendor dealer trader|{p} sold it|bought from {p}|{p} wants to get rid of it
driver chauffeur haulier|{p} was at the wheel|{p} drives|brought by {p}
teacher instructor tutor coach trainer|{p} gives the lessons|lessons with {p}|{p} teaches it|{p} is the coach
patient case_name|{p} came in|{p} is being treated|we examined {p}
doctor physician surgeon vet|{p} examined it|{p} is the doctor|seen by {p}
author writer poet editor|{p} wrote it|by {p}|from the pen of {p}
artist painter sculptor maker|{p} made it|a work of {p}|{p} is the artist
composer singer soloist performer|{p} sang|the music is by {p}|{p} took the solo
chef cook baker|{p} cooked|from the kitchen of {p}|{p} is in the kitchen
farmer grower keeper breeder|{p} grows it|from the fields of {p}|{p} looks after it
witness observer spotter finder|{p} saw it|{p} reported it|found by {p}|{p} was there
suspect accused thief|they suspect {p}|{p} was arrested|{p} denies it
judge referee umpire examiner|{p} decided|{p} blew the whistle|{p} gave the verdict
winner champion victor|{p} won|first place went to {p}|nobody beat {p}
guest visitor tenant lodger|{p} stays there|{p} moved in|for {p}
host hostess organizer organiser|{p} invited them|{p} organizes it|at the home of {p}
clerk agent officer inspector|{p} filled in the form|handled by {p}|{p} checked it|{p} wrote this down
mechanic technician engineer plumber|{p} fixed it|{p} will take a look|{p} did the work
architect designer planner|{p} drew the plans|designed by {p}|{p} is the architect
guide leader ranger|{p} led the way|{p} leads the group|with {p} as guide
donor sponsor patron|{p} paid for everything|a gift of {p}|thanks to {p}
apprentice trainee intern pupil|{p} is learning the trade|{p} started last week|{p} helps out
rider jockey pilot|{p} sat in the saddle|with {p} on board|{p} flew it
contact contact_person caller sender|ask for {p}|{p} called|{p} sent this|call {p}
"""

# True or false: names | true/false, told in other words.
TRUTHS = """
heated has_heating warm|the radiators work/you will want a coat in there|there is a stove/no heating at all|it is warm inside/it is as cold inside as out
insured is_insured covered|the insurance pays/nobody insured it|it is covered against damage/there is no policy on it
paid is_paid settled|the money has come in/we are still waiting for the money|the bill is settled/not a cent so far|all paid up/they owe us the lot
urgent is_urgent rush|it cannot wait/there is no hurry|we need it right away/take your time|as fast as you can/any time will do
fragile breakable delicate|handle it with care/you can throw it around|it breaks easily/nothing can break it
vegetarian meat_free veggie|no meat in it/there is bacon in it|it is without meat/it is made with beef
gluten_free wheat_free|no wheat in it/there is flour in it|safe for people who avoid gluten/it has gluten
available in_stock on_hand|we have it here/it is sold out|there are some left/nothing left on the shelf|you can have it at once/you would have to wait
open is_open|the doors are open/they are shut|you can go in/it is closed
working functional in_order operational|it runs fine/it is broken|it does what it should/it will not start|nothing wrong with it/out of order
new brand_new unused|still in its wrapping/it has been used|nobody used it before/second-hand
married has_spouse|there is a wedding ring/single|married for years/never married
smoker smokes smoking|smokes a pack a day/never touched a cigarette|cannot give up cigarettes/does not smoke
member is_member registered|on our list/not one of us|signed up long ago/never signed up
approved accepted granted|they said yes/they turned it down|it got the green light/it was refused
delivered arrived received|it has come/it has not come yet|it reached us safely/still on its way
locked secured|the key was turned/anybody could walk in|it was locked/the door stood open
licensed has_permit permitted|the papers are in order/nobody has a permit|with a licence/without any licence
waterproof water_resistant|rain does not hurt it/keep it out of the rain|water stays out/it leaks like a sieve
electric has_motor battery_powered|it runs on a battery/no motor in it|plug it in at night/you have to push it yourself
accessible step_free wheelchair_access|no steps anywhere/stairs only|wheelchairs can get in/a wheelchair cannot get in
parking has_parking car_park|you can leave the car there/nowhere to park|there is a car park/come without a car
pets pets_allowed dogs_allowed|bring the dog/leave the dog at home|animals are welcome/no animals, please
breakfast breakfast_included with_breakfast|breakfast comes with it/breakfast costs extra|you get breakfast/no breakfast
wifi has_internet internet|you can get online/no network there|there is wireless/you will be offline
furnished has_furniture|with beds and tables/bring your own furniture|everything is in it, chairs and all/the rooms are empty
returnable refundable money_back|you get your money back/no refunds|can be given back/sold is sold
gift is_gift present wrapped|put a bow on it/no wrapping|it is for a birthday/it is for myself
organic bio untreated|grown without sprays/it was sprayed|no chemicals were used/the usual chemicals
handmade homemade made_by_hand|every one made by hand/it comes off a machine|they did it with their own hands/it is from a factory
alcoholic contains_alcohol|not for children, there is rum in it/without alcohol|it has alcohol/not a drop of alcohol
spicy hot is_hot|it burns on the tongue/quite mild|lots of chili/no chili at all
raining wet rainy|bring an umbrella/not a drop fell|it poured/it stayed dry
safe harmless secure|nothing can happen/keep away from it|no danger at all/it is dangerous
injured hurt harmed|there was blood/not a scratch|an ambulance came for them/nobody was hurt
armed has_weapon|there was a knife/no weapon was found|with a gun/empty hands
witnessed seen|somebody saw it/nobody saw it|people were watching/no one was around
recovered found_again returned|it turned up again/it is still missing|they got it back/never seen again
signed has_signature|the name stands below it/nobody put a name to it|signed at the bottom/without a signature
confirmed is_confirmed certain|it is certain now/it may still change|they confirmed/we have heard nothing yet
cancelled called_off|it will not take place/it goes ahead|they called it off/it is on as planned
free free_of_charge no_cost|you pay nothing/you have to pay|it is on the house/it is not free
full fully_booked sold_out|no seat left/there are seats left|everything is taken/plenty of room
indoor inside under_roof|it is under a roof/it is in the open air|held in a hall/held outdoors
public open_to_all|anybody may come/members only|everyone is welcome/by invitation only
experienced has_experience|did it for years/a beginner|an old hand/never did it before
vaccinated has_shots immunized|got all the shots/never had a shot|the shots are up to date/not one injection so far
tame trained house_trained|eats out of your hand/it bites|does what you say/quite wild
neutered sterilized|cannot have young/may have young|the vet has seen to that/not neutered
rusty corroded rusted|brown with rust/not a speck of rust|rust all over/bright as new
damaged has_damage|there are dents/no scratch on it|it came with a crack/as good as new
repaired fixed mended|it works again/still waiting for repair|they mended it/nobody has mended it yet
recyclable reusable|you can use it again/it goes in the bin|do not throw it away, it can be used again/one use only
solo alone unaccompanied|nobody came along/with company|all alone/in a group
overnight stays_night|until the next morning/home the same day|with a bed for the night/back by evening
fried deep_fried|straight from the fat/not fried|out of the pan of hot oil/boiled, not fried
frozen deep_frozen|hard as ice/never frozen|straight out of the freezer/fresh, not from the freezer
ripe ready mature|ready to eat/still green|just right now/it needs another week
complete finished done|nothing is missing/some of it is missing|all of it is there/half of it is not there yet
late delayed overdue|behind time/right on time|it came too late/it came when it should
subscribed newsletter opted_in|send me your news/no mails, please|put me on the mailing list/take me off the list
"""

# One of a few: names | value=tellings, / between values.
CHOICES = """
priority importance urgency_level|high=drop everything for this,it comes first/medium=sometime this week is fine,not too late/low=whenever you have time,it can wait for months
size size_class dimension|small=it fits in a pocket,a tiny one/medium=neither big nor little,of the usual size/large=a huge one,you need two people to lift it
status state progress|open=nobody has started on it,not begun/in_progress=they are working on it,half done/closed=it is finished,all wrapped up
condition wear quality|new=never used,straight from the factory/good=hardly a mark on it,well kept/poor=falling apart,worn out
severity level gravity|minor=a small thing,hardly worth a word/serious=this is bad,no small matter/critical=everything stands still,the worst that could happen
shift turn duty|morning=from six to two,before noon/evening=from two to ten,after lunch until late/night=from ten to six,while others sleep
meal mealtime sitting|breakfast=first thing in the day,with the morning paper/lunch=at midday,in the noon break/dinner=in the evening,at eight at night
difficulty skill_level grade|easy=a child could do it,anyone can/moderate=takes some practice,not for beginners/hard=only for experts,nearly impossible
gender sex|male=he is a boy,it is a he/female=she is a girl,it is a she
tone sentiment attitude|positive=they loved it,full of praise/neutral=neither good nor bad,just the facts/negative=they hated it,nothing but complaints
frequency how_often interval|daily=every day,day after day/weekly=once in seven days,every Monday/monthly=on the first of every month,twelve times a year/yearly=once a year,every twelve months
side hand|left=on the heart's side,not the right one/right=the hand most people write with,not the left one
age_group audience for_whom|children=for the little ones,under twelve only/adults=for grown-ups,not for kids/seniors=for people over seventy,for pensioners
channel contact_by reached_by|phone=give me a ring,call me/email=write to my mailbox,send me a mail/post=a letter will do,by stamped letter
speed pace tempo|slow=at a snail's pace,take it easy/fast=like lightning,at full speed
"""
