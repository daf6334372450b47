"""The words of `wide_spans`: kinds with members that are rare, what stands around a value, and sentences that hold them."""

# ruff: noqa: E501  (a row is easier to read in one line)

# names|a word for all of them|s: one of them, m: some|f: food, o: object, a: animal, p: plant, t: stuff, d: something done, i: illness|members|kinds of WordNet that have more
THINGS = """
dish dish_name meal food_ordered|dish|m|f|bouillabaisse,ratatouille,moussaka,feijoada,pierogi,bibimbap,biryani,tagine,ceviche,jambalaya,laksa,goulash,okonomiyaki,pho,rendang,shakshuka,borscht,tzatziki,kedgeree,haggis,cassoulet,tonkatsu,poutine,gado-gado,injera,menudo,mole poblano,nasi goreng,osso buco,paella,pelmeni,rogan josh,saltimbocca,sauerbraten,stroganoff,sukiyaki,tempura,vichyssoise,yakitori,zarzuela,chakchouka,dolma,fattoush,gnocchi,khachapuri,lutefisk,mapo tofu,satay|
fabric cloth textile|fabric|m|t|organza,taffeta,chambray,gabardine,seersucker,jacquard,voile,crepe de chine,brocade,cheesecloth,chenille,chiffon,damask,dimity,fustian,georgette,gingham,grosgrain,herringbone,hopsack,jersey,kersey,lawn,madras,moleskin,muslin,nankeen,oilcloth,percale,poplin,sackcloth,sateen,serge,shantung,tarlatan,terry,ticking,tulle,twill,velour,viscose,challis,barathea,bouclé|fabric
rock mineral stone|rock|m|t|gneiss,schist,dolerite,obsidian,pumice,travertine,gabbro,diorite,andesite,rhyolite,chert,dolomite,shale,siltstone,mudstone,serpentine,soapstone,tuff,quartzite,feldspar,hornblende,olivine,gypsum,anhydrite,barite,malachite,azurite,hematite,galena,sphalerite,kaolin,mica,tourmaline,zircon,pyrite,lignite,anthracite,breccia,peridotite,syenite|mineral
breed dog_breed dog|dog|s|a|beagle,borzoi,komondor,samoyed,whippet,dachshund,vizsla,weimaraner,schnauzer,keeshond,malamute,papillon,pekingese,pointer,puli,saluki,shar pei,spitz,basenji,briard,affenpinscher,bichon,bloodhound,chihuahua,corgi,dalmatian,greyhound,kelpie,kuvasz,leonberger,lurcher,mastiff,newfoundland,otterhound,pomeranian,rottweiler,schipperke,setter,terrier,xolo|
bird bird_species species|bird|s|a|bittern,bulbul,bunting,bustard,capercaillie,cassowary,cockatiel,cormorant,corncrake,curlew,dotterel,dunlin,dunnock,egret,fieldfare,firecrest,gannet,godwit,goldcrest,grebe,guillemot,hoopoe,ibis,jackdaw,kittiwake,lapwing,linnet,merganser,nightjar,nuthatch,oriole,osprey,ouzel,petrel,pipit,plover,redstart,shrike,siskin,skua,smew,spoonbill,tern,turnstone,wagtail,waxwing,wheatear,whimbrel,wryneck|oscine
fish catch fish_species|fish|s|a|barbel,bream,brill,burbot,char,chub,coelacanth,dab,dace,dogfish,dorado,flounder,garfish,goby,grayling,grouper,gudgeon,gurnard,haddock,halibut,lamprey,ling,loach,lumpfish,megrim,minnow,monkfish,mullet,perch,pike,pilchard,plaice,pollock,roach,rudd,sea bass,shad,smelt,snapper,sole,sprat,sturgeon,tench,turbot,vendace,whiting,wrasse,zander|
cheese cheese_sort|cheese|m|f|appenzeller,asiago,boursin,brie,burrata,caciocavallo,camembert,cantal,chaource,comté,emmental,epoisses,feta,fontina,gouda,gruyère,halloumi,havarti,jarlsberg,limburger,manchego,mascarpone,mimolette,morbier,munster,paneer,pecorino,provolone,quark,raclette,reblochon,ricotta,roquefort,scamorza,stilton,taleggio,tilsit,vacherin,wensleydale|
bread bakery_item baked_good|bread|s|f|baguette,bagel,bannock,barmbrack,batard,bialy,brioche,challah,chapati,ciabatta,crumpet,damper,flatbread,focaccia,grissini,johnnycake,kaiser roll,lavash,limpa,matzo,naan,pandoro,panettone,paratha,pita,pretzel,pumpernickel,roti,scone,sourdough,stollen,tortilla,zopf|
dance dance_style|dance|m|d|bolero,bourrée,cha-cha,csardas,fandango,farandole,flamenco,foxtrot,gavotte,habanera,hornpipe,jitterbug,kathak,kizomba,lambada,ländler,lindy hop,mambo,mazurka,merengue,minuet,pasodoble,polka,polonaise,quadrille,quickstep,reel,rigaudon,rumba,saltarello,samba,sarabande,schottische,sirtaki,strathspey,tarantella,zapateado,zydeco|
instrument musical_instrument|instrument|s|o|balalaika,bandoneon,bassoon,bodhrán,bouzouki,celesta,charango,cimbalom,cittern,clavichord,concertina,cornet,crumhorn,didgeridoo,dulcimer,erhu,euphonium,flugelhorn,glockenspiel,guqin,harmonium,hurdy-gurdy,kalimba,kora,koto,lute,lyre,mandola,marimba,melodica,oboe d'amore,ocarina,oud,pan flute,rebec,sackbut,sarod,shamisen,sitar,spinet,theorbo,theremin,ukulele,viola da gamba,vuvuzela,zither|
hat headgear|hat|s|o|balaclava,beret,bicorne,boater,bonnet,bowler,busby,cloche,coonskin cap,deerstalker,fascinator,fedora,fez,glengarry,homburg,kepi,kippah,mitre,mortarboard,panama,papakha,pith helmet,sailor cap,shako,snood,sombrero,sou'wester,stetson,tam-o'-shanter,top hat,toque,trilby,tricorne,turban,ushanka,yarmulke|hat
garment item_of_clothing|garment|s|o|anorak,bandana,blazer,bolero,cagoule,caftan,cardigan,chador,cheongsam,cummerbund,dashiki,dirndl,djellaba,doublet,duffle coat,dungarees,farthingale,gilet,haori,jerkin,kilt,kimono,lederhosen,mackintosh,mantilla,negligee,parka,peignoir,pinafore,poncho,romper,ruana,salwar,sarong,serape,smock,surplice,tabard,toga,trench coat,ulster,waders|garment
boat vessel craft|boat|s|o|barquentine,bateau,brigantine,caique,caravel,catamaran,clipper,coracle,corvette,cutter,dhow,dinghy,dory,dredger,felucca,galleon,gondola,hovercraft,hydrofoil,junk,kayak,ketch,launch,lugger,narrowboat,outrigger,pirogue,pontoon,proa,punt,sampan,schooner,sculler,skiff,sloop,tartane,trawler,trimaran,tugboat,wherry,xebec,yawl|sailing vessel
flower bloom flower_sort|flower|s|p|agapanthus,alstroemeria,amaryllis,anemone,aquilegia,bellflower,bougainvillea,calendula,camellia,campion,chrysanthemum,clematis,columbine,cornflower,cyclamen,delphinium,edelweiss,foxglove,freesia,fritillary,fuchsia,gentian,gladiolus,heliotrope,hellebore,hibiscus,hyacinth,hydrangea,larkspur,lobelia,lupin,magnolia,narcissus,nasturtium,oleander,pasqueflower,petunia,phlox,protea,ranunculus,rhododendron,snapdragon,verbena,wisteria,zinnia|flower
tree tree_species|tree|s|p|acacia,alder,araucaria,aspen,baobab,bay laurel,bergamot,blackthorn,carob,casuarina,catalpa,cypress,dogwood,eucalyptus,ginkgo,hawthorn,hemlock,hickory,holm oak,hornbeam,ironwood,jacaranda,juniper,larch,linden,mangrove,medlar,mulberry,persimmon,poplar,quebracho,redwood,rowan,sandalwood,sequoia,sycamore,tamarisk,tulip tree,walnut,wych elm,yew|conifer
mushroom fungus|mushroom|s|p|agaric,blewit,bolete,cep,chanterelle,deathcap,enoki,fly agaric,honey fungus,inkcap,king oyster,lion's mane,maitake,matsutake,milkcap,morel,parasol,porcini,puffball,russula,shiitake,stinkhorn,truffle,waxcap|
insect bug insect_seen|insect|s|a|aphid,backswimmer,blowfly,botfly,burying beetle,caddisfly,chafer,cicada,cockchafer,cranefly,damselfly,dung beetle,earwig,froghopper,glowworm,greenfly,hawkmoth,horntail,hoverfly,ichneumon,katydid,lacewing,leafhopper,mantis,mayfly,mole cricket,pond skater,sawfly,scarab,silverfish,springtail,stag beetle,stick insect,stonefly,swallowtail,thrips,weevil,whitefly|weevil
pasta pasta_shape|pasta|m|f|bucatini,cannelloni,capellini,cavatappi,conchiglie,ditalini,farfalle,fettuccine,fusilli,garganelli,linguine,maccheroni,mafaldine,orecchiette,orzo,paccheri,pappardelle,penne,pici,radiatori,ravioli,rigatoni,rotelle,spätzle,strozzapreti,tagliatelle,tortellini,trofie,udon,vermicelli,ziti|
spice seasoning|spice|m|f|ajwain,allspice,anardana,annatto,asafoetida,berbere,caraway,cardamom,cayenne,cumin,dukkah,epazote,fenugreek,galangal,garam masala,grains of paradise,juniper,lovage,mace,mahleb,marjoram,nigella,nutmeg,paprika,piment,ras el hanout,saffron,savory,sumac,tamarind,tarragon,turmeric,vanilla,za'atar|
dessert sweet pudding|dessert|s|f|baklava,banoffee pie,blancmange,cannolo,charlotte,churro,clafoutis,cobbler,crème brûlée,croquembouche,dobos torte,éclair,floating island,halva,kaiserschmarrn,lamington,linzer torte,macaron,madeleine,marzipan cake,millefeuille,mochi,nougat,panna cotta,parfait,pavlova,profiterole,sabayon,semifreddo,sopaipilla,strudel,syllabub,tarte tatin,tiramisu,trifle,zabaglione|
drink beverage|drink|m|f|absinthe,aquavit,ayran,calvados,chicha,cider,cordial,curaçao,genever,grappa,horchata,kefir,kirsch,kombucha,kumis,kvass,lassi,limoncello,mead,mezcal,mulled wine,orgeat,ouzo,palinka,pastis,perry,pisco,pulque,raki,retsina,rooibos,root beer,sake,sangria,schnapps,shandy,slivovitz,soju,tepache,vermouth,yerba mate|liquor
martial_art sport discipline|sport|m|d|aikido,bandy,biathlon,bocce,bouldering,canyoning,capoeira,cricket,croquet,curling,dressage,falconry,fencing,floorball,handball,hurling,jai alai,judo,kabaddi,kendo,kitesurfing,korfball,krav maga,lacrosse,luge,muay thai,netball,orienteering,padel,parkour,pelota,pétanque,polo,rounders,savate,sepak takraw,shinty,skeleton,squash,sumo,tchoukball,trampolining,water polo|
game board_game card_game|game|m|d|backgammon,baccarat,bézique,blackjack,bridge,canasta,carrom,checkers,cribbage,dominoes,euchre,faro,gin rummy,hearts,mahjong,mancala,nine men's morris,old maid,pachisi,pinochle,piquet,reversi,scopa,shogi,skat,solitaire,spades,tarock,tric-trac,whist,xiangqi|
gem gemstone jewel|gem|s|o|agate,alexandrite,amazonite,amethyst,ametrine,aquamarine,beryl,bloodstone,carnelian,chalcedony,chrysoprase,citrine,garnet,heliodor,iolite,jasper,kunzite,labradorite,lapis lazuli,moonstone,morganite,onyx,opal,peridot,rhodonite,sardonyx,spinel,sunstone,tanzanite,topaz,turquoise,variscite|
tool tool_name|tool|s|o|adze,auger,awl,ball-peen hammer,bench plane,billhook,bodkin,bradawl,caulking gun,caliper,chalk line,chisel,clamp,dibber,drawknife,fretsaw,froe,gimlet,grapnel,hacksaw,jigsaw,mallet,mattock,micrometer,pliers,plumb line,rasp,ratchet,router,scythe,secateurs,sextant,sickle,spirit level,spokeshave,tin snips,trowel,turnbuckle,whetstone,winch|hand tool
illness ailment diagnosis|illness|m|i|angina,appendicitis,bronchitis,bursitis,cholera,colic,conjunctivitis,croup,dengue,diphtheria,eczema,gastritis,glaucoma,gout,hay fever,impetigo,jaundice,laryngitis,lumbago,malaria,measles,meningitis,mumps,pleurisy,psoriasis,rickets,rubella,scabies,sciatica,scurvy,shingles,sinusitis,tetanus,tinnitus,tonsillitis,vertigo,whooping cough|
language tongue|language|m|d|Afrikaans,Amharic,Basque,Bengali,Breton,Catalan,Cornish,Dzongkha,Esperanto,Estonian,Faroese,Frisian,Galician,Georgian,Guarani,Gujarati,Hausa,Icelandic,Igbo,Kannada,Khmer,Kurdish,Lao,Latvian,Luxembourgish,Malagasy,Maltese,Maori,Nahuatl,Occitan,Pashto,Quechua,Romansh,Sinhala,Sorbian,Swahili,Tagalog,Tamil,Telugu,Tibetan,Urdu,Uzbek,Welsh,Xhosa,Yiddish,Yoruba|
vehicle means_of_transport|vehicle|s|o|brougham,buggy,bulldozer,cabriolet,caravan,combine harvester,droshky,excavator,fire engine,forklift,funicular,gig,go-kart,handcar,hansom,hearse,hydrofoil,jeep,landau,limousine,milk float,monorail,moped,oxcart,phaeton,quad bike,rickshaw,roadster,scooter,sidecar,sledge,snowmobile,stagecoach,steamroller,streetcar,surrey,tandem,tricycle,troika,trolleybus,tuk-tuk,unicycle|motor vehicle
fruit fruit_sort|fruit|s|f|acerola,ackee,bergamot,blood orange,boysenberry,breadfruit,carambola,cherimoya,clementine,cloudberry,damson,durian,elderberry,feijoa,gooseberry,greengage,guava,jackfruit,jujube,kumquat,lingonberry,longan,loquat,lychee,mangosteen,medlar,mirabelle,nectarine,papaya,persimmon,physalis,pitaya,pomelo,quince,rambutan,salak,sapodilla,satsuma,sloe,tamarillo,tangelo,yuzu|edible fruit
vegetable crop|vegetable|m|f|amaranth,arugula,bok choy,broccolini,cardoon,celeriac,chard,chayote,chicory,collards,cress,daikon,dulse,edamame,endive,escarole,fennel,fiddlehead,frisée,horseradish,jicama,kale,kohlrabi,lovage,mangold,mizuna,okra,orache,pak choi,parsnip,purslane,radicchio,rapini,rutabaga,salsify,samphire,scorzonera,sorrel,swede,tatsoi,topinambur,yam|vegetable
furniture piece_of_furniture|piece of furniture|s|o|armoire,bassinet,breakfront,buffet,bureau,canapé,chaise longue,cheval glass,chesterfield,chiffonier,credenza,davenport,divan,dumbwaiter,escritoire,etagere,footstool,futon,girandole,hassock,highboy,lectern,loveseat,lowboy,méridienne,nightstand,ottoman,pouffe,rocking chair,secretaire,settee,sideboard,tallboy,tantalus,trivet,valet stand,vanity,washstand,whatnot|
animal creature animal_seen|animal|s|a|aardvark,agouti,alpaca,antelope,axolotl,binturong,capybara,caracal,chamois,chinchilla,civet,coati,dormouse,dugong,echidna,ermine,fennec,gazelle,gecko,genet,gibbon,hyrax,ibex,jerboa,kinkajou,lemming,lemur,loris,manatee,marmot,marten,meerkat,mongoose,muntjac,numbat,ocelot,okapi,pangolin,peccary,quokka,quoll,serval,stoat,tapir,tarsier,tenrec,uakari,vicuña,vole,wombat,yak,zorilla|rodent
"""
SIZES = "large,small,tiny,huge,medium,enormous,little,big,massive,narrow,oversized,miniature,mid-sized,giant"
COLORS = "crimson,turquoise,beige,violet,scarlet,olive,navy,ivory,lilac,maroon,teal,pink,brown,white,black,yellow,gray,orange,purple,green,blue,red,golden,silver,indigo,magenta,ochre,mauve,khaki,amber,cream,charcoal,russet,azure"
STATES = {
    "f": "fresh,stale,burnt,cold,lukewarm,frozen,leftover,homemade,salty,half-eaten,vegan,reheated,organic,spicy",
    "o": "worn,broken,rusty,spotless,cracked,faded,torn,dented,scratched,dusty,brand-new,second-hand,antique,unused,refurbished,leaky",
    "a": "sick,tired,hungry,tame,lame,lost,injured,frightened,newborn,aggressive,wet,sleepy,half-starved,playful",
    "p": "withered,wilted,healthy,rotten,fragrant,young,half-dead,potted,wild,dried,freshly cut,moldy",
    "t": "coarse,fine,damp,dusty,cheap,rough,smooth,glossy,imported,leftover,clean,dirty",
    "d": "",
    "i": "",
}
# of one thing: {x} it, {g} a word for all of its kind, {s} its size, {c} its color, {q} its state
ONE = """the {s} {x}|{s.a} {x}|{s.a} {c} {x}|{c.a} {x}|{q.a} {x}|the {q} {x}|the {q} {c} {x}|the {s}, {q} {x}|{x.a}, {s} and {q}|{x.a} in {c}|{x.a} of {s} size|a rather {s} {x}|{x.a}, quite {q}|{x.a} that is {q}|{x.a} that looked {q}|the {x}, {q} as it was,|{x.a} {g}|the {x} {g}|{s.a} {x} {g}|{c.a} {x} {g}|{g.a} of the {x} kind|{g.a} of the {x} type|{g.a} of the {x} variety|{s.a} {g} of the {x} sort|{g.a} called {x}|{g.a} they call {x}|{g.a} known as {x}|{q.a} {g}, namely {x.a},|{g.a}, {x.a} to be exact,|{g.a} ({x})|{x.a} ({c})|{x.a} ({s}, {q})|the {g}, {x.a},|{x.a}, the {s} one,|{x.a}, the {g} everybody wants,|what looked like {x.a}|{x.a}, {c} all over,|a single {x}|just one {s} {x}|another {x}|yet another {q} {x}|{x.a}, size: {s},|{x.a}, color {c},|{s.a} {g} - {x.a} -|{c.a} and {s} {x}|one {x}|{x.a}, by the way a {s} one,|this {q} {x}|that {s} old {x}|a very {q} {x}|{x.a}|the {x}|{x.a}, nothing else,|a real {x}|{x.a} of all things|our {x}|the last {x}|{x.a}, rather {s} for {g.a},"""
SOME = """some {x}|{x}|the {x}|{c} {x}|some {q} {x}|the {q} {x}|{q} {x} again|{x} {g}|the {x} {g}|{g} of the {x} kind|{g} of the {x} type|{g.a} called {x}|{g.a} they call {x}|{g.a}, namely {x},|{g.a}, {x} to be exact,|the {g} ({x})|{x} ({q})|the {g}, {x},|{x}, {q} this time,|{x}, the {g} everybody wants,|a lot of {x}|a little {x}|more {x}|{x}, of all things,|{q} {c} {x}|our {x}|{x} in {c}|{x} as usual|plenty of {x}|real {x}|nothing but {x}|{x} and nothing else|{q} {x} {g}|the usual {x}"""
DONE = """{x}|{x} again|{x} of course|the {g} {x}|{x}, the {g},|{g.a} called {x}|{g.a} they call {x}|{x}, of all things,|{x} and nothing else|a bit of {x}|{x}, as always,|{x} ({g})|{g.a}, namely {x},|real {x}|{x} proper|{x} once more"""
# of a person, with a role and without
ROLED = """{role} {p}|the {role}, {p},|{p}, the {role},|our {role} {p}|the {role} ({p})|{p} ({role})|{p}, our new {role},|our old {role}, {p},|the {role} here, {p},|{role} {p} himself|the {role}, a certain {p},|{p}, {role} by trade,|the {role} called {p}|{p}, {role} for years now,|that {role}, {p},|{p}, still the {role},|the {role} - {p} -|the {role}, whose name is {p},|{p}, then {role},|the young {role} {p}|{p} as {role}|acting {role} {p}|the new {role} {p}"""
ROLES = "captain,coach,baker,surgeon,landlord,plumber,librarian,conductor,midwife,skipper,goalkeeper,notary,florist,tailor,beekeeper,referee,cellist,janitor,umpire,glazier,roofer,verger,cooper,curator,editor,treasurer,chaplain,ranger,mechanic,dentist,barber,butcher,milliner,warden,bursar,potter,tutor,nanny,groom,usher,foreman,choreographer,archivist,saddler,vintner,miller"
CALLED = """{p}|{p}|{p}|{p} himself|a certain {p}|one {p}|old {p}|young {p}|{p} from next door|poor {p}|my neighbor {p}|good old {p}|{p}, as always,|{p}, who was late,|{p}, visibly tired,|our own {p}|{p} of all people|{p} again|somebody called {p}|{p} (again)|none other than {p}|little {p}|dear {p}|{p}, in a hurry,|{p} personally|{p}, soaked to the skin,|my cousin {p}|the famous {p}|{p}, not me,|someone named {p}"""
PLACES = """in {t}|in {t}|near {t}|in the {t} area|in the {t} region|around {t}|in downtown {t}|in greater {t}|in the city of {t}|over in {t}|at our {t} branch|in the {t} office|in {t} proper|in {t} itself|just north of {t}|in old {t}|on the {t} road|in the suburbs of {t}|in {t} again|at {t} station|in the {t} district|in beautiful {t}|in {t}, of all places,|in rainy {t}|at the {t} site|in the town of {t}|in the {t} valley|in the {t} shop|not far from {t}|in the heart of {t}|down in {t} somewhere|in {t} proper, I think,|at the {t} fair|on the outskirts of {t}|in sunny {t}|at {t} airport|in {t} these days"""
# sentences: {P} a person, {X} a thing, {T} at a place, as above; {p} {p2} {t} {t2} {team} {team2} {n} {m} {date} bare
SENTENCES = """
{P} sold {X} {T} yesterday|p:seller sold_by vendor
{P} bought {X} {T}|p:buyer bought_by purchaser
{P} saw {X} {T} this morning|p:observer seen_by witness
{P} lost {X} {T} and is sad|p:owner lost_by
{P} found {X} lying around {T}|p:finder found_by
{P} wants {X} brought to {t}|p:customer wanted_by;t:destination deliver_to
{P} ordered {X} hastily|p:customer ordered_by
{P} called angrily about {X}|p:caller complainant
{P} asks whether {X} is still there|p:asked_by interested_person
{P} returned {X} unopened|p:customer returned_by
{P} described {X} very well|p:described_by narrator
{X} lent to {p} came back late|p:borrower lent_to
{X} meant for {p} arrived broken|p:recipient meant_for
{X} was delivered {T} by {P}|p:delivered_by courier
{X}, seen {T} by {P}, is gone|p:seen_by witness
{X} belongs to {P}|p:owner belongs_to
{X} of {p}'s disappeared {T}|p:owner belongs_to
{p}'s {x} is {T} now|p:owner belongs_to
{p}'s {x} has been stolen {T}|p:owner robbed_person
{p}'s friend {p2} keeps {X}|p:friend_of known_person;p2:keeper kept_by
{p} waited {T} while {p2} fetched {X}|p:waiting_person who_waited;p2:fetched_by fetcher
{p} told {p2} about {X}|p:teller told_by;p2:listener told_to
{p} gave {p2} {X}|p:giver given_by;p2:receiver given_to
{X} went from {p} to {p2} on {date}|p:giver previous_owner;p2:receiver new_owner;date:date changed_hands_on
{P} runs a stall {T} with {X} on it|p:stallholder run_by
{P} paid {n} euros for {X} {T}|p:buyer paid_by;n:price euros
for {X} {P} got {n} euros|p:seller received_by;n:price euros
{X}, {n} euros, ask {P}|n:price euros;p:contact ask_for
{n} people came {T} to look at {X}|n:visitors people_count
on {date} {P} turned up {T} with {X}|date:date on_day;p:visitor who_came
it was {P} who mentioned {X}|p:mentioned_by source
{P} swears by {X}|p:fan enthusiast
{P} collapsed {T} next to {X}|p:patient person_hurt
{P} arrived {T} carrying {X}|p:arrival who_arrived
{P} left {X} standing {T}|p:left_by owner
{P} painted {X} for {p2}|p:painter painted_by;p2:client painted_for
{P} has been looking for {X} since {date}|p:seeker searching_person;date:since searching_since
{P}, {age}, came first {T} and won {X}|p:winner first_place;age:age winner_age
second came {P}, who got {X}|p:runner_up second_place
{P} opened the door {T} and there was {X}|p:resident who_opened
nobody {T} had ever seen {X} before {P} came|p:newcomer who_came
{P} writes {T} about {X}|p:author written_by
{X} photographed {T} by {P} won a prize|p:photographer photo_by
{P} traded {X} for a song|p:trader traded_by
somebody {T}, probably {P}, ate {X}|p:suspect suspected_person
reported {T}: {X} missing, says {P}|p:reported_by informant
wanted {T}: {X}; call {P} after six|p:contact call_whom
{P} teaches {D} {T}|p:teacher taught_by
{P} took up {D} last year {T}|p:beginner learner
{P} gave up {D} when moving away from {t}|p:former_player who_gave_up;t:moved_from old_home
{p} and {p2} met {T} over {D}|p:first_person person_one;p2:second_person person_two
lessons in {D} with {p} start on {date} {T}|p:teacher tutor;date:starts_on first_lesson
{P} is down with {I} {T}|p:patient sick_person
{P} caught {I} {T} on {date}|p:patient sick_person;date:caught_on since_day
{p} stays home because of {I}, {p2} steps in|p:absent_person sick_person;p2:substitute stand_in
{P} treated {p2} for {I} {T}|p:treated_by physician;p2:patient treated_person
{I} kept {p} away from {t}|p:patient absent_person;t:missed_town place
"""
# without things: names beside names
NAMED = """
{team} hosted {team2} and won {k}-{m}|team:hosts home_team home_side;team2:visitors away_team guests;k:home_goals goals_hosts;m:away_goals goals_visitors
hosts {team} beat visitors {team2} {k} to {m}|team:hosts home_team winners;team2:visitors away_team losers;k:home_goals winning_score;m:away_goals losing_score
visitors {team2} lost {T} to {team} despite a good start|team:winners winning_team;team2:visitors losers losing_team
{team2} traveled to {team} and came home empty-handed|team:hosts home_team;team2:visitors away_team
at home {team} drew with {team2} in front of {n} fans|team:hosts home_team;team2:visitors guests;n:fans attendance crowd
{team} won, {team2} lost|team:winners winning_team;team2:losers losing_team
{team2} was no match for {team}|team:winners stronger_team;team2:losers weaker_team
{team} coach {p} praised {team2}|team:coachs_team own_team;p:coach trainer;team2:opponent praised_team
{team}'s captain {p} scored against {team2}|team:captains_team scoring_team;p:captain scorer;team2:opponent other_team
{team} signed {p} from {team2} for {n} million|team:new_club buying_club;p:player signed_player;team2:old_club selling_club;n:millions fee_millions
{p} leaves {team} for {team2}|p:player who_leaves;team:old_club old_team;team2:new_club new_team
{p} scored the winner for {team} {T}|p:scorer goal_by;team:scoring_team team
referee {p} sent {p2} of {team} off|p:referee sent_off_by;p2:sent_off player_sent_off;team:players_team team
defending champions {team} knocked out by {team2} {T}|team:champions losers;team2:winners surprise_winners
{team} supporters waited {T} for {p}|team:club supported_team;p:awaited_person star
{team} play {team2} next, says {p}|team:first_team home_side;team2:second_team opponent;p:source said_by
{team} and {team2} share the points, {p} disappointed|team:first_team team_one;team2:second_team team_two;p:disappointed_person unhappy_person
the captain, {p}, was injured {T}|p:captain injured_person
the captain, {p}, refused to leave until {p2} came|p:captain skipper;p2:awaited_person latecomer
{p}'s boss, {p2}, works {T}|p:employee worker;p2:boss superior
{p}'s sister {p2} lives {T}|p:sibling brother_or_sister_of;p2:sister lives_there
{p}'s doctor is {p2}|p:patient treated_person;p2:doctor physician
{p2} is the daughter of {p}|p:parent mother_or_father;p2:daughter child
{p} married {p2} {T} on {date}|p:first_spouse spouse_one;p2:second_spouse spouse_two;date:wedding_date married_on
{p} is older than {p2} by {n} years|p:older_person elder;p2:younger_person younger;n:years_between age_gap
{p} beat {p2} {T} in {n} moves|p:winner champion;p2:loser defeated_person;n:moves move_count
{p} lost to {p2} {T}|p:loser defeated_person;p2:winner victor
{p} was driven home to {t} by {p2}|p:passenger driven_person;p2:driver chauffeur;t:home_town destination
{p} introduced {p2} to the people of {t}|p:introducer host;p2:newcomer introduced_person;t:town community
{p} recommends {p2} for the job {T}|p:recommended_by referee;p2:applicant candidate
{p} hired {p2} as {role} {T}|p:employer hired_by;p2:employee new_hire;role:position job
{p2}, hired by {p}, starts {T} on {date}|p:employer hired_by;p2:employee new_hire;date:starts_on first_day
{p} works as {role.a} {T}|p:worker employee;role:job occupation
{p} used to be {role.a} {T}|p:person_named who;role:former_job old_job
{p}, {role.a} {T}, called about the invoice|p:caller who_called;role:callers_job occupation
{P} called {T} and wants to talk to {p2}|p:caller who_called;p2:wanted_person asked_for
{P} forgot an umbrella {T}|p:forgetful_person left_by
{P} apologizes to {p2}|p:apologizer who_is_sorry;p2:apology_to offended_person
{P} moved from {t} to {t2}|p:mover who_moved;t:old_town moved_from;t2:new_town moved_to
{P} flies from {t} to {t2} on {date}|p:passenger traveler;t:departure_town flying_from;t2:arrival_town flying_to;date:flight_date flies_on
from {t} to {t2} with {P}, {n} hours|t:start from_town;t2:goal to_town;p:companion driver;n:hours trip_hours
the train from {t} reached {t2} with {p} asleep on board|t:start from_town;t2:terminus to_town;p:sleeper passenger
{p} represents {firm} {T}|p:representative agent;firm:firm represented_company
{firm} appointed {p} head of the {t} office|firm:firm employer;p:office_head appointed_person;t:office_town branch_town
{firm} sued {p} {T} and lost|firm:plaintiff suing_firm;p:defendant sued_person
{p} of {firm} spoke {T}|p:speaker spoken_by;firm:firm speakers_firm
{firm} owes {p} {n} euros|firm:debtor owing_firm;p:creditor owed_person;n:debt sum_owed
{firm}, run by {p}, closed its {t} branch|firm:firm closing_firm;p:manager run_by;t:closed_branch branch_town
{p} inherited the {firm} works {T} from {p2}|p:heir inheritor;firm:firm works_name;p2:previous_owner inherited_from
{p} named the cat {p2}|p:cat_owner named_by;p2:cat_name name_of_cat
they call {p} the king of {t}|p:called_king nicknamed_person;t:kingdom town
{P} waves, {p2} does not|p:who_waves friendly_person;p2:who_does_not unfriendly_person
{P} spoke first, then {p2}|p:first_speaker opened_by;p2:second_speaker followed_by
{P} sings, {p2} plays the piano {T}|p:singer vocalist;p2:pianist accompanist
"""
BEHIND = "it seems|they say|as far as I know|so I heard|apparently|in the end|once again|of course|if I remember right|by the way|to everybody's surprise|at last|unfortunately|luckily"
