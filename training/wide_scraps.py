"""Words for `wide_pick`: goods with what they come in, sentences with places in them, and how it ended.

GOODS: names | class | members | what they come in | how they are | what was done to them. Class m: there is some of it; c: one counts them.
SCENES: themes | sentence | names of its places, where they have others than everywhere.
ENDS: themes | names where it is so | names where it is not so | tellings that it is so | tellings that it is not so.
"""

# ruff: noqa: E501, SIM905  (an entry stands in one line)

GOODS = """
crop grain_type grain cereal seed_corn|m|oats,spelt,millet,sorghum,teff,emmer,einkorn,buckwheat,durum,triticale,maize,bulgur|sacks,bags,bushels,wagons,bins,scoops|damp,clean,dry,coarse,husked,dusty|threshed,milled,weighed,stored,cut
stone mineral stone_sort rock quarry_stone|m|slate,granite,basalt,gneiss,porphyry,travertine,tuff,dolomite,schist,onyx,serpentine,gritstone|blocks,slabs,cartloads,pallets,skips,plates|rough,gray,polished,broken,split,heavy|quarried,cut,loaded,sawn,split
wood lumber timber wood_sort lumber_kind|m|larch,hornbeam,alder,balsa,teak,rosewood,hickory,sycamore,ebony,cedar,yew,elm|planks,logs,beams,stacks,boards,bundles|seasoned,wet,knotty,straight,green,dark|felled,sawn,planed,stacked,floated down
metal alloy metal_kind ore alloy_used|m|tungsten,zinc,nickel,pewter,brass,cobalt,manganese,chromium,antimony,bauxite,galena,magnesium|bars,ingots,sheets,coils,rods,carts|rusty,shiny,crude,dull,hot,thin|smelted,cast,rolled,mined,forged
fabric cloth textile fabric_sort cloth_kind weave|m|linen,corduroy,twill,taffeta,muslin,damask,tweed,organza,gabardine,calico,chintz,jersey|bolts,rolls,bales,lengths,yards,ells|faded,striped,thick,soft,unbleached,printed|woven,dyed,cut,shipped,folded
wool_type yarn fibre thread_kind|m|mohair,jute,flax,hemp,alpaca,cashmere,sisal,ramie,angora,raffia,viscose,kapok|spools,skeins,balls,reels,hanks,cones|tangled,undyed,fine,twisted,scratchy,waxed|spun,wound,carded,dyed,combed
leather hide leather_kind skin|m|calfskin,suede,pigskin,buckskin,nappa,nubuck,chamois,cordovan|rolls,pieces,bundles,stacks,piles|stiff,oiled,brown,raw,supple|tanned,salted,stretched,cut
fish catch species fish_kind catch_sort landed_fish|m|plaice,turbot,whiting,pollock,mullet,grayling,tench,bream,lumpfish,sprat,zander,gurnard|crates,boxes,barrels,baskets,tubs,trays|fresh,smoked,salted,frozen,gutted,small|landed,netted,gutted,iced,auctioned
seafood shellfish seafood_kind|c|oyster,scallop,cockle,winkle,lobster,langoustine,clam,mussel,whelk,crayfish|buckets,baskets,nets,sacks,trays,pots|live,raw,cooked,muddy,cleaned|dredged,raked,sorted,boiled,caught
fruit fruit_kind orchard_crop picked_fruit|c|quince,medlar,damson,greengage,nectarine,persimmon,papaya,lychee,mulberry,currant,tangerine,guava|baskets,punnets,crates,bowls,trays,boxes|ripe,bruised,sweet,green,unripe,sour|picked,sorted,washed,preserved,sold
vegetable produce vegetable_kind greens field_crop|c|parsnip,shallot,fennel bulb,swede,courgette,artichoke,gherkin,radish,kohlrabi,celeriac,chicory,squash|bunches,sacks,crates,barrows,nets,boxes|young,muddy,crisp,pickled,wilted,large|pulled,dug up,washed,planted,pickled
cheese dairy cheese_kind dairy_sort|m|stilton,pecorino,gorgonzola,manchego,halloumi,raclette,edam,ricotta,wensleydale,roquefort,burrata,quark|wheels,wedges,blocks,tubs,rounds,slices|mild,mature,crumbly,smoked,fresh,sharp|aged,pressed,salted,cut,wrapped
spice herb seasoning spice_kind seasoning_sort|m|cardamom,sumac,fenugreek,caraway,turmeric,juniper,mace,star anise,allspice,marjoram,lovage,asafoetida|jars,tins,pinches,packets,pouches,spoons|ground,whole,toasted,fresh,dried,bitter|ground,roasted,imported,mixed,crushed
tea tea_kind leaf_sort brew|m|oolong,rooibos,darjeeling,sencha,assam,lapsang,chamomile,hibiscus,matcha,ceylon,verbena|chests,tins,pots,caddies,bags,cups|loose,smoky,strong,pale,green|blended,packed,picked,brewed,shipped
coffee bean coffee_kind roast bean_sort|m|arabica,robusta,liberica,mocha,bourbon,catuai,peaberry,maragogype|sacks,tins,pounds,bags,cups|dark,roasted,mild,ground,green|roasted,ground,shipped,tasted
drink beverage drink_kind beverage_sort bottled_drink|m|cider,mead,perry,kvass,root beer,stout,porter,sherry,vermouth,lemonade,ginger ale,kombucha|bottles,kegs,casks,barrels,cans,pints|flat,cold,sweet,strong,cloudy,warm|brewed,bottled,poured,tapped,spilled
wine grape wine_kind vintage_sort grape_kind|m|riesling,malbec,chianti,rioja,muscat,grenache,gamay,silvaner,barolo,zweigelt,moscato|bottles,cases,barrels,glasses,magnums,racks|dry,young,corked,red,fruity|pressed,bottled,cellared,tasted,exported
meat meat_kind cut_of_meat|m|mutton,venison,brisket,gammon,veal,salami,pastrami,sirloin,bresaola,chorizo,oxtail,tripe|slices,strips,trays,kilos,joints,pounds|lean,smoked,cured,fatty,raw,tender|cured,sliced thin,hung,roasted,minced
nut nut_kind kernel_sort|c|cashew,pecan,macadamia,chestnut,pistachio,hazelnut,walnut,brazil nut,almond|bags,handfuls,bowls,jars,cups,packets|salted,shelled,roasted,cracked,sugared|shelled,roasted,gathered,packed,ground
bread pastry bread_kind loaf_sort baked_thing|c|ciabatta,pretzel,brioche,bagel,crumpet,scone,focaccia,baguette,muffin,pita,bannock|trays,baskets,bags,racks,dozens,boxes|stale,warm,crusty,burnt,fresh|baked,delivered,toasted,sold,glazed
sweet sweet_kind candy confection|m|nougat,marzipan,fudge,toffee,liquorice,halva,butterscotch,turkish delight,praline,caramel,sherbet|bars,jars,bags,tins,boxes,pieces|sticky,soft,hard,home-made,chewy|wrapped,melted,boiled,given away,eaten
flower bloom flower_kind bloom_sort|c|peony,freesia,aster,gladiolus,lupin,foxglove,zinnia,anemone,begonia,hollyhock,geranium,primrose|bunches,pots,vases,trays,bouquets,armfuls|white,wilted,early,potted,cut,scented|planted,cut,watered,sold,arranged
fuel fuel_kind burning_stuff|m|anthracite,paraffin,diesel,peat,propane,coke,lignite,bioethanol,kerosene,butane,turf|drums,canisters,scuttles,tanks,gallons,sacks|cheap,damp,clean,leaking,refined|delivered,burned,stored,refilled,pumped
chemical substance chemical_kind reagent substance_used|m|borax,ether,chloroform,benzene,formalin,iodine,ammonia,acetone,potash,saltpetre,glycerine,toluene|flasks,vials,drums,bottles,drops,beakers|diluted,pure,concentrated,spilled,labeled|mixed,distilled,measured,stored,spilled
paint pigment paint_kind dye pigment_used|m|indigo,ochre,vermilion,umber,sienna,madder,cobalt blue,whitewash,woad,cochineal,lampblack|tins,pots,buckets,tubes,cans,jars|dry,thick,glossy,old,thin|mixed,applied,ground,opened,stirred
material building_material material_used|m|plaster,gypsum,mortar,gravel,clay,concrete,thatch,asphalt,loam,stucco,lime,bitumen|loads,bags,barrows,tonnes,buckets,shovels|wet,fine,cracked,dry,cheap|poured,spread,delivered,mixed,ordered
paper paper_kind stationery_sort|m|vellum,cardboard,parchment,blotting paper,tracing paper,foolscap,newsprint,crepe paper,papyrus|reams,sheets,rolls,packs,stacks,quires|yellowed,glossy,lined,torn,blank|printed,folded,cut,recycled,bound
oil fat oil_kind fat_sort|m|linseed oil,lard,suet,tallow,castor oil,margarine,ghee,walnut oil,dripping,rapeseed oil|tins,jugs,barrels,spoons,jars,cans|rancid,clear,warm,cold,filtered|pressed,rendered,bottled,heated,poured
animal livestock animal_kind herd_animal stock_kind|c|heifer,ewe,alpaca,bullock,nanny goat,foal,llama,reindeer,piglet,water buffalo,lamb,mule|truckloads,pens,herds,pairs,wagons|young,lame,white,healthy,shorn|bought,shorn,sold,driven,counted
bird species bird_kind species_seen|c|plover,grebe,shrike,bittern,curlew,osprey,fieldfare,redstart,tern,siskin,avocet,dunnock|flocks,pairs,swarms,cages|tired,rare,young,ringed,noisy|ringed,counted,seen,caught,photographed
tool implement tool_kind implement_sort|c|chisel,mallet,scythe,trowel,billhook,pickaxe,adze,plumb line,gimlet,sickle,rasp,auger|boxes,crates,sets,racks,bags|blunt,rusty,new,borrowed,sharp|sharpened,lent,stolen,ordered,oiled
part component spare_part part_kind spare_sort component_kind|c|gasket,flywheel,sprocket,camshaft,bushing,solenoid,grommet,carburetor,dynamo,thermostat,cotter pin,manifold|boxes,trays,crates,packs,sets|worn,cracked,spare,greased,missing|replaced,ordered,machined,tested,fitted
garment clothing garment_kind clothing_sort|c|cardigan,poncho,waistcoat,kimono,bonnet,anorak,sarong,dungaree,tunic,bolero,cape,smock|boxes,bags,racks,parcels,bundles|woollen,torn,new,second-hand,striped|sewn,washed,donated,ironed,mended
furniture furniture_kind household_piece|c|footstool,wardrobe,ottoman,dresser,settee,lectern,bookcase,washstand,cradle,hammock,commode|vanloads,pairs,sets,crates|antique,painted,broken,heavy,wooden|restored,sold,delivered,carved,moved
instrument instrument_kind played_thing|c|zither,bassoon,ukulele,lute,harmonium,cornet,dulcimer,piccolo,viola,banjo,glockenspiel,oboe|cases,pairs,sets,crates|old,cracked,tuned,rented,wooden|tuned,repaired,sold,played,shipped
medicine drug medicine_kind remedy_sort drug_given|m|quinine,penicillin,morphine,aspirin,codeine,insulin,cortisone,iodine tincture,antivenom,heparin|doses,vials,ampoules,packs,bottles,strips|expired,strong,new,sealed,cold|prescribed,given,ordered,stored,tested
find artefact find_kind artefact_sort dug_up_thing|c|amphora,brooch,urn,arrowhead,fibula,shard,figurine,goblet,coin,amulet,spindle|trays,boxes,bags,crates,handfuls|ancient,broken,golden,tiny,painted|unearthed,cleaned,catalogued,photographed,stolen
book publication book_kind printed_work|c|almanac,hymnal,atlas,lexicon,gazetteer,primer,ledger,folio,pamphlet,treatise,psalter|boxes,shelves,parcels,crates,stacks|worn,rare,bound,torn,illustrated|printed,bound,lent,returned,sold
gem jewel gem_kind jewel_sort|c|opal,zircon,garnet,topaz,peridot,agate,tourmaline,beryl,carnelian,amethyst,spinel|pouches,trays,boxes,handfuls|uncut,flawless,blue,set,cloudy|cut,polished,appraised,mined,stolen
vehicle vehicle_kind ride_sort|c|moped,tandem,rickshaw,sledge,hearse,minivan,trolley,unicycle,caravan,snowmobile,wagon|truckloads,rows,pairs,fleets|dented,rusty,new,parked,yellow|parked,repaired,towed,rented,painted
boat craft boat_kind craft_sort|c|dory,punt,ketch,skiff,trawler,cutter,sampan,dhow,barge,yawl,pontoon,coracle|fleets,rows,pairs,convoys|leaky,wooden,painted,moored,fast|moored,launched,caulked,chartered,sunk
dish meal dish_kind meal_sort course|m|goulash,risotto,couscous,borscht,moussaka,pilaf,chowder,succotash,gazpacho,laksa,polenta,kedgeree|plates,bowls,helpings,pots,portions,trays|hot,spicy,cold,leftover,vegetarian|cooked,served,warmed up,ordered,reheated
"""

SCENES = """
g|{n} {box} of {what} came in from {town}|town:origin from_town comes_from source
g|{p} brought {n} {box} of {adj} {what}|p:bringer supplier deliverer who_brought_it
g|we have {n} {box} of {what} left, all of it {adj}|
g|{what}, {n} {box}, {done} in {town}|
g|{adj} {what} {done} near {town}, {n} {box} in all|
g|the {role}, {p}, wants {n} {box} of {what} by {date}|
g|{n} {box} of {what} {done} last week, and {m} {box2} of {what2}|m:{box2} {box2}_no
g|{p} sold {n} {box} of {what} to {firm} for {m} euros|p:seller sold_by;firm:buying_firm sold_to purchaser;m:paid euros proceeds
g|put {n} {box} of the {adj} {what} on the cart for {town}|town:goes_to bound_for destination
g|{firm} ordered {what} again, {n} {box}, {adj} if possible|firm:ordering_firm ordered_by client customer
g|the {what} from {town} went into {n} {box}|town:origin grown_at
g|out of {n} {box} of {what} only {m} were {adj}|m:good_ones remaining rest
g|at {time} {p} weighed the {what}: {n} {box}|p:weigher weighed_by
g|{p}'s {adj} {what} filled {n} {box}|p:owner belongs_to holder
g|{p}'s van took {n} {box} of {what} to {town}|p:driver van_owner;town:delivered_at destination unloading_point
g|{n} {box} of {adj} {what}, {done} by {p} on {date}|p:worker handled_by made_by
g|they unloaded {what} at {town}, {n} {box} of it, at {time}|town:port unloaded_at
g|a load of {adj} {what} for {firm}: {n} {box}|firm:recipient consignee
g|{n} {box} of {what} stood in front of {p}'s door on {weekday}|p:resident doorstep_of
g|{what} went up to {m} euros, so {p} bought only {n} {box}|m:new_price euros_each;p:bought_by shopper
g|for the {what} we need {n} {box2}, said {p}, the {role}|
g|{p} had {n} {box} of {what} {done} in {town} in {year}|year:in_year year_of_work
g|{town} sends us {what}, {n} {box} every {weekday}|town:sender_town supplier_town
g|somebody took {n} {box} of {what} from {p}'s shed|p:robbed shed_owner victim_name
g|the store holds {what} ({n} {box}) and {what2} ({m} {box2})|m:{box2} {box2}_held
cg|{n} {adj} {what} were {done} in {town}|
cg|{p} counted {n} {what}, {m} of them {adj}|p:counter counted_by;m:of_which subset
cg|{n} {what} for {firm}, {adj} ones, {m} euros each|m:each_price euros_each;firm:consignee deliver_to
cg|on {weekday} {p} {verb} {n} {what} near {town}|
cg|{p}'s {n} {what} were {done} before {time}|p:owner belongs_to
cg|{role.a} called {p} {verb} {n} {what}|
o|{p}, our {role}, talked to {p2} in {town} on {date}|p2:talked_to counterpart
o|the new {role} is {p}; {p2} retired in {year}|p2:predecessor former_one;year:retired_in since_year
o|ask for {p} at the desk, {p2} is away until {date}|p:ask_for stand_in;p2:absent_person who_is_away;date:back_on away_until
o|{p2} sent the {role}, a man named {p}, to {town}|p2:sent_by dispatcher
o|{p}'s {relative} met the {role} of {town}, {p2}|relative:kin_of_person;p2:{role} {role}_name
o|it was {p} who called the {role} at {time}, and {p2} came|p:caller_name called_by;p2:{role} who_came
o|{p} and {p2} share the office in {town}; {p} is the {role}|p2:officemate shares_with
o|the {role} {p} wrote on {date} that {firm} owes {n} euros|firm:debtor owing_firm;n:debt owed
o|{firm} made {p} its {role} in {year}|firm:employer hired_by
o|they asked for the {role}, and {p} came down from {town} by {ride}|ride:came_by means
o|my {relative} {p} works for {firm} in {town}|p:relative_name;relative:family_tie kinship
o|{p2} paid {n} euros to {p}, the {role}, at {time}|p2:payer who_paid;n:fee_paid euros
o|before {p} took over as {role}, it was {p2}|p2:earlier_one came_before
s|{team} beat the guests, {team2}, {goals} to {few} in {town}|team:hosts home_side winning_side;team2:guests away_side beaten_side;goals:hosts_goals winning_goals;few:guests_goals beaten_goals
s|the guests from {town}, {team2}, lost to {team} before {n} people|team:winning_side won_by;team2:guests beaten_side lost_by;n:crowd onlookers;town:guests_town
s|the away side, {team2}, drew with {team}, {few} all|team:hosts home_side;team2:away_side traveling_side;few:goals_each
s|{p}'s side, {team}, meets the champions, {team2}, on {date}|team:side challengers;team2:champions_now titleholders;p:side_of
s|{p} scored {goals} times for {team} against the newcomers, {team2}|p:scorer top_scorer;goals:goals_scored scored;team:scored_for;team2:newcomers scored_against
s|our boys, {team}, took the {cup} in {town} in {year}|team:our_side club_name;cup:trophy_name cup_won
s|{team}, the home side, needed {min} minutes to break down {team2}|team:home_side;team2:away_side opponents;min:minutes_needed
s|the referee, {p}, stopped {team} against {team2} after {min} minutes|p:whistle referee_name;team:first_side;team2:second_side;min:stopped_after minutes_played
s|at half past the hour {team} were ahead, in the end the others, {team2}, won {goals} to {few}|team:beaten_side;team2:winning_side;goals:winning_goals;few:beaten_goals
t|{p} took {ride.a} from {town} to {town2} at {time}|town:from_town starts_in;town2:to_town ends_in;ride:means went_by
t|{n} people went from {town} to {town2} with {p}, the {role}|town:starts_in left_from;town2:ends_in bound_for;n:party_size travelers
t|the party under {p} left {town} on {date} with {n} mules|p:party_leader led_by;n:mules
t|{p} climbed {peak} on {date}, {high} meters, alone|p:climber;peak:summit mountain_name mountain;high:summit_height height
t|the {ship} lay off {town} on {date} with {n} hands, {p} in charge|ship:ship_name vessel_name;n:hands_aboard;p:in_charge commander
t|the {ship}, {min} years old, was towed to {town} by the {ship2}|ship:towed_ship;ship2:tug_name towed_by;min:ship_years
t|{p}'s {ride} broke down between {town} and {town2}|p:stranded driver_name;ride:broken_down ride_sort;town:coming_from;town2:heading_for
x|{p} tested the {device} in {town} on {date}, for {n} minutes|device:tested_device apparatus;n:minutes_run;p:tester
x|test number {n} of the {device}, {p} watching|device:apparatus tested_device;n:test_no run_no;p:watched_by onlooker
x|the {device} of {firm} was tried out at {time}|device:tried_out novelty;firm:built_by maker_firm
x|{p}'s {device} ran for {n} hours in {town}|p:inventor built_by;device:apparatus;n:hours_run
w|"{show}" opened in {town} on {date}, with {p} as the {part}|show:play_title piece;part:part_played character;p:actor played_by
w|{p} played the {part} in "{show}" before {n} people|show:play_title;part:character part_played;p:actor;n:crowd house_size
w|the curtain went up at {time} for "{show}", {n} seats|show:piece play_title;n:seat_total;time:curtain_at
k|{p} baked {food.a} for {few}, with {what} in it|food:baked_thing cake_sort;few:enough_for serves;p:baked_by
k|table {n} wants {food}, {p} serves|food:wanted_food table_order;n:table_no;p:server_name waiter_name
k|{p2} got {food.a} from {p} on {date}|food:treat given_food;p2:receiver_name;p:giver_name given_by
"""

ENDS = """
xt|succeeded went_well success worked_out|failed failure unsuccessful|it went well;everything worked;it did what it should;it came off without a hitch;nothing went wrong;it was a success|it failed;nothing worked;it went wrong;it was a flop;it ended in smoke;it came to nothing
t|came_back made_it_home back_home|lost_on_the_way never_returned|everybody came home;they were back by evening;all of them are home again;they returned safe and sound|they did not come home;nobody has seen them since;they were never seen again;there is no trace of them
t|got_there reached_goal arrived_safely|turned_back gave_up|they got there;the goal was reached;they made it to the end;they stood at the top in the end|they had to turn around;halfway they gave up;they never got there;they broke it off
gk|spoiled gone_bad rotten|still_good usable|half of it had gone bad;it smelled foul;there was mold all over;we had to throw it away|it kept well;it was as good as on the first day;nothing had gone off;all of it can be used
g|complete_load nothing_missing all_there|short_delivery something_missing incomplete|not one was missing;the count was right;it was all there|some of it was missing;we are a few short;it was less than agreed
g|on_schedule in_time punctual|too_late behind_schedule came_late|it came when it should;it was there on the minute;we did not have to wait|it came days late;we waited in vain until night;it kept us waiting
g|was_settled bill_paid money_received|unpaid still_owed outstanding|the money is in the till;they paid at once;cash on the table;we have been paid|the bill is still open;not a penny so far;they will pay some other day;no money has come in
g|sold_on resold found_buyer|unsold left_unsold|it was sold the same day;somebody bought the lot;it found a buyer|nobody wanted it;it is still lying here;no buyer turned up
g|sealed_up still_sealed unopened|was_opened seal_broken|the seal was whole;nobody had opened it;the lid was still nailed shut|somebody had opened it;the seal was broken;the lid was off
g|got_wet soaked water_damage|stayed_dry kept_dry|the rain got into it;it was soaked through;it dripped when we lifted it|not a drop got in;it stayed dry under the canvas;the tarpaulin kept the rain off
g|sent_back refused_load rejected|kept_it taken_in|we sent it straight back;they would not take it;it went back the same day|we kept it;they took all of it;it was accepted without a word
g|weighed_in was_weighed|not_weighed|we put it on the scales;it went over the scales|nobody weighed it;the scales were broken, so we guessed
o|agreed_to said_yes consented|said_no declined refused_it|there was a nod;the answer was yes;the offer was taken;they shook hands on it|the answer was no;the offer was turned down;there was only a shake of the head;nobody would hear of it
o|showed_up turned_up was_present|stayed_away absent_that_day no_show|both were there in time;the chair was taken;we saw each other in person|nobody came;the chair stayed empty;we waited for nothing
o|got_answer replied wrote_back|no_reply unanswered|a letter came back;there was an answer the next day;the reply was friendly|we never heard back;the letter stayed without an answer;no word since
o|signed_it has_signed|left_unsigned signature_missing|the name is under the paper;it was signed on the spot;the ink is dry|the line at the bottom is empty;nobody has signed yet;the pen was not touched
o|told_truth honest_account|lied made_it_up|every word was true;it was all as told;the story held|it was a lie;not a word of it was true;the story was invented
o|fell_ill taken_ill|in_good_health|a fever came on that night;the doctor had to come;three days in bed followed|as fit as ever;not even a cold;in the best of health
s|went_overtime extra_time|over_in_normal_time|they had to play on;it took extra time|it was over in the normal time;no extra time was needed
s|fair_game clean_match|rough_game foul_play|not one foul;everybody played fair;no cards were shown|there were kicks and punches;two were sent off;it was a brawl
s|packed_house sold_out_game|empty_stands half_empty|there was no ticket left;people stood on the roofs;every seat was taken|the stands were half empty;hardly anybody came;you could choose your seat
s|rained_out abandoned_game|played_to_end|they broke it off because of the rain;the pitch was under water, so they went home|they played it to the end;the rain did not stop them
x|blew_up caught_fire exploded_in_test|stayed_whole survived_test|there was a bang and a cloud of smoke;it went up in flames;the fire brigade came|it stayed cool;no flame, no smoke;it held to the end
x|to_be_repeated needs_rerun|final_test no_rerun|we have to do it again;another run is planned|once was enough;no other run is needed
x|leaked leaking_out|kept_tight no_leak|oil ran out at the bottom;there was a puddle under it;it dripped|it stayed tight;not a drop came out;the floor was dry
x|was_loud noisy_run|quiet_run silent_run|the windows shook;we had to cover our ears;you could hear it in the next street|it made no sound;you could hear a pin drop;it only hummed
w|liked_it well_received got_applause|booed bad_reviews|they clapped for minutes;the critics were full of praise;everybody stood up and cheered|the house whistled;the critics tore it apart;people left before the end
w|played_again prolonged|taken_off closed_early|it will run for another month;they play it again tomorrow|it was taken off after a week;they never played it again
w|in_costume costumed|in_street_clothes|they wore wigs and silk;all of them were in costume|they played in jeans;no costumes, just plain clothes
k|eaten_up finished_off|left_over leftovers|not a crumb was left;the plates came back empty;they ate it all|half of it went back to the kitchen;nobody touched it;most of it was left
k|was_hot served_hot|served_cold gone_cold|it was steaming;it came straight from the oven;you could burn your tongue|it was cold by then;it had stood around too long;it was no longer warm
k|cut_up in_pieces portioned|left_whole uncut|it came in small pieces;somebody had cut it up;each got a part|nobody had cut it;it came whole;the knife was never used
k|tasted_good delicious enjoyed|tasted_bad inedible|everybody asked for more;it was a treat;they licked their fingers|it tasted of soap;nobody could eat it;they left it after one bite
k|had_salt salted_enough|unsalted salt_forgotten|the salt was just right;it was well salted|somebody forgot the salt;there was no salt in it
gtoxswk|was_photographed photo_taken|no_photo|somebody took a picture;there is a photo of it;the camera was running|nobody had a camera;there is no picture of it;no photo was taken
gtoxswk|was_raining in_the_rain|no_rain dry_day|it was pouring;all of it in the rain;everyone had an umbrella|the sun was out;the sky was clear all day;it stayed dry
gtoxswk|made_public in_the_papers|kept_secret hushed_up|it was in all the papers;the radio told everybody;they put up a notice|nobody was told;they kept it quiet;not a word got out
gtoxswk|got_permission was_allowed|forbidden without_permission|the office said yes;they had a stamp for it;it was allowed|it was forbidden;nobody had allowed it;they did it without asking
gtoxswk|someone_hurt injuries|all_unhurt nobody_hurt|one of them broke an arm;there was blood;two had to see a doctor|all of them were fine;not a scratch;nobody was hurt
gtoxswk|police_called police_came|no_police|the police came;somebody called the police;two officers wrote it all down|no police were needed;nobody called the police
"""

ROLES = "miller cooper tanner glazier warden steward bosun purser curator usher caretaker bailiff groom stoker bookbinder surveyor registrar treasurer archivist dispatcher lamplighter beekeeper ferryman locksmith rigger welder forester shepherd gamekeeper choirmaster librarian notary auctioneer cartographer chemist stationmaster signalman conductor porter gardener upholsterer roofer mason carpenter vintner brewer cheesemaker weaver dyer potter engraver printer saddler farrier harbormaster midwife cook verger sexton prompter fitter".split()
DEVICES = "centrifuge,winch,heat pump,turbine,telescope,loom,windlass,rocket,glider,water wheel,printing press,dynamo,steam hammer,milking machine,radio mast,periscope,submersible,seismograph,incubator,threshing machine,barometer,cable car,hot-air balloon,drone".split(
    ","
)
RIDES = "tandem,rowing boat,night train,cable car,sledge,moped,stagecoach,ferry,minibus,tram,hired car,mail van,funicular,camel,motorbike,seaplane".split(
    ","
)
FOODS = "seed cake,rhubarb pie,onion tart,nut loaf,plum dumpling,cheese flan,ginger pudding,leek quiche,trifle,meringue,apricot turnover,mushroom strudel,poppy seed roll,fruit scone,potato pancake,lemon sponge".split(
    ","
)
PARTS = "miller,ghost,old king,gravedigger,younger sister,chambermaid,notary,blind beggar,witch,swan,soldier,gatekeeper,jester,nurse,smuggler,duchess".split(
    ","
)
VERBS = "found bought sold lost counted brought saw carried repaired painted moved borrowed cleaned".split()
RELATIVES = "aunt,uncle,niece,nephew,cousin,brother-in-law,grandmother,godson,stepsister,great-uncle,twin brother,daughter".split(
    ","
)
CUPS = "Copper Bowl,Valley Cup,Mayor's Shield,Harvest Cup,Silver Oar,Winter Trophy,River Plate,Founders' Cup,Amber Ring,Lake Shield".split(
    ","
)
TEAM_ENDS = "Rovers,United,Wanderers,Athletic,Rangers,Falcons,Otters,Badgers,Lions,Comets,Herons,Sharks,Foxes,Bears,Thunder,Eagles,Hornets,Stags".split(
    ","
)
