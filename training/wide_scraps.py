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
g|got {n} {box} {adj} {what} from {p} ({town})|p:supplier got_from;town:supplier_town origin
g|{town}: {what}, {n} {box}, {p}|
g|could you book in {n} {box} of {what} for {p}, {adj}|p:booked_for customer
g|{p} asked whether the {n} {box} were {what} or {what2}; it was {what}|what2:wrong_guess other_guess;p:asker
g|instead of {what2} they sent {what}, {n} {box} of it|what2:expected wanted_instead
g|no {what2} this time, only {what}: {n} {box}, {adj}, from {town}|what2:not_there missing_kind
g|lot {m}: {n} {box} of {what} ({adj})|m:lot_no lot
g|{p} swears that the {adj} {what} in the {n} {box} comes from {town}|p:swears claimed_by;town:claimed_origin origin
g|the {role} of {firm} picked out {what}, {n} {box}|firm:firm_name employer
g|half of the {n} {box} held {what}, the others were empty|
g|{n} times {what}, in {box}, for {p2}, not for {p}|p:not_for;p2:meant_for recipient
g|hi, {p} here, we still have {n} {box} of {what} of yours in {town}|p:writer_name caller
cg|{what} x {n}, {adj}, {p} collects them on {weekday}|p:collector collected_by
cg|{p} gave back {n} of the {what} that {p2} had lent|p:gave_back borrower;p2:lender lent_by
cg|between {town} and {town2} somebody saw {n} {what}, all of them {adj}|town:one_end;town2:other_end
b|the {brand} {ware} costs {price} euros at {firm}|brand:brand make;ware:ware product article;price:price price_euros;firm:shop_name shop
b|{p} sent the {ware} back, {brand} should do better|brand:brand maker_name;ware:returned_ware returned_thing;p:unhappy_buyer
b|{n} of the {brand} {ware} in {color}, {price} each|n:pieces_wanted quantity;brand:make brand;ware:ware product;color:color shade;price:each_costs unit_price
b|my {brand} {ware} is from {year} and still runs, says {p}|brand:make brand;ware:ware machine;p:said_by
b|{firm} takes the {brand} {ware} out of its range on {date}|brand:brand make;ware:ware product;firm:seller_firm;date:until_day last_day
b|call {phone} about the {color} {ware}, {p} is selling it|phone:phone number_to_call;ware:offered_ware;color:color;p:seller
m|{p} came in with {ailment} on {date}, {p2} was on duty|p:patient sick_person;ailment:complaint ailment;p2:on_duty doctor
m|{p2}, the nurse, gave {p} {few} doses for {ailment}|p2:nurse_name nurse;p:patient treated_person;few:doses doses_given;ailment:ailment illness
m|{ailment} kept {p} in bed for {min} days|ailment:illness ailment;min:days_in_bed;p:sick_person patient
m|after {min} days in ward {m} {p} was told it was {ailment}|ailment:diagnosis ailment;m:ward ward_no;p:patient;min:days_there
l|{p} sat the {subject} exam in {town} on {date}|subject:subject exam_subject;p:candidate student
l|{p2} teaches {subject} to {n} pupils, one of them {p}|p2:teacher_name teacher;n:pupils class_size;p:pupil_named;subject:subject taught_subject
l|{p} handed in {n} pages on {subject} to {p2}|p2:handed_to examiner_name;n:pages pages_handed_in;p:author_name student;subject:topic subject
r|{p} mended the {device} of {p2} for {n} euros|p:mended_by repairer;p2:device_owner customer;n:repair_cost cost
r|the {device} on floor {few} is broken; {p} was called at {time}|few:floor floor_no;p:called_repairer technician;device:broken_device
r|{p2} says the {device} of {firm} broke in {year}|p2:reported_by;firm:device_firm owner_firm;year:broke_in
j|the court in {town} heard {p} on {date} about {offence}|p:accused defendant;offence:charge offence
j|{p2} told the judge, {p}, all about the {offence} in {town}|p:judge judge_name;p2:witness told_by;offence:offence case_of
j|{p} got {min} months for {offence}|p:convict sentenced_person;min:months sentence_months;offence:offence crime
v|{n} members voted on the {plan} in {town} on {date}|n:voters members;plan:plan voted_on
v|the {role}, {p}, spoke for the {plan}, {p2} against it|p2:opponent spoke_against;plan:plan proposal
v|{p} put the {plan} to the vote at {time}|p:put_forward_by proposer;plan:plan motion
a|{p} found {creature.a} near {town}|creature:found_animal creature;p:finder found_by
a|the {creature} of {p} got out at {time}, {p2} ran after it|creature:escaped_animal pet;p:pet_owner owner;p2:chaser ran_after
a|{p2} brought {creature.a} called {pet} to the vet on {weekday}|creature:creature animal;pet:pet_name called;p2:brought_by
f|a fire broke out in the {place} of {p} at {time}|place:burnt_place building;p:owner place_owner
f|{n} people were in the {place} in {town} when it burned|n:people_inside;place:building burnt_place
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
m|got_better recovered cured|got_worse still_ill|the fever went down;the next week it was all over;soon there was no sign of it any more;up and about again|it grew worse every day;the fever would not go down;there was no change for the better
m|operated had_surgery|no_operation|they had to cut;the surgeons worked for hours;it ended on the operating table|pills were enough;no knife was needed;they did not have to cut
m|sent_home discharged|kept_in stays_in_ward|home the same evening;the bed is free again|the bed is still taken;another week in the ward
m|catching infectious|harmless_to_others|half of the ward has it now;the others caught it;the door had to stay shut|nobody else got it;the others need not fear;it does not spread
l|passed_exam passed|flunked failed_exam|it was enough for a pass;the certificate is in the mail;all the points were there;the board was pleased|it has to be done again next year;there will be no certificate;too few points;it was not enough
l|cheated caught_cheating|honest_work|there was a slip of paper in the sleeve;it was all copied from the neighbor;the phone lay under the desk|every line was own work;nobody looked left or right;no slip, no phone
l|handed_in_late missed_deadline|met_deadline|it came two days after the date;the door was already shut|it was in before the date;there was an hour to spare
rx|runs_again repaired_now works_now|still_broken beyond_repair|it purrs like a cat;it does its work again;good as new|it is scrap now;it still does nothing;they could not save it
r|has_warranty under_warranty|warranty_over|the maker pays for it;the papers cover it|the warranty ran out last year;we have to pay it ourselves
r|part_ordered waiting_for_part|no_part_needed|a part has to come from abroad first;the part is on order|no part was needed;everything needed was in the toolbox
j|found_guilty convicted|acquitted cleared|the verdict was guilty;it ends in jail;off to prison|there was no proof, and home it was;the verdict was not guilty;free to go
j|confessed admitted_it|denied_it|it was all admitted;there was a full confession;the head went down and a yes came|every word was denied;not a word of confession;it was somebody else, was the answer
j|has_lawyer represented|without_lawyer|a lawyer did the talking;two lawyers sat there|there was no lawyer;no lawyer would take it
v|carried adopted motion_passed|voted_down rejected_plan|most hands went up;there was a clear majority for it;it becomes a rule now|most were against it;it fell through;hardly a hand went up
v|unanimous all_agreed|split_vote disputed|not one voice against;all hands, without a single no|they fought over it for hours;the room was split in two
v|put_off postponed_vote|decided_now|they will decide next month;it was put off|it was settled that night;there will be no second round
a|alive survived|died dead|it is breathing;it eats again;it pulled through|it did not live through the night;it was dead when they came;they buried it in the garden
a|caught_again was_caught|ran_off got_away|it is back in its cage;they got hold of it;a net did the trick|it is gone for good;nobody could catch it;it was too fast for all of them
a|has_owner owned|stray ownerless|there was a tag with a name;somebody came to claim it|no tag, no collar;nobody came to claim it
a|bit_someone dangerous_animal|gentle_animal tame_one|it bit the first hand it saw;three fingers were bandaged|it let everybody stroke it;it purred on the lap
f|put_out extinguished|burned_down burnt_out|after an hour the last flame was out;the hoses came in time;only smoke is left|nothing but ashes is left;it burned to the ground;the walls fell in
f|was_insured_place covered_by_insurance|no_insurance|the insurance will pay for it;there was a policy|no insurance will pay;the policy had run out
f|arson set_on_fire|by_accident|somebody had poured petrol;a match and a can were found;it was done on purpose|a candle fell over;it was the old wiring;nobody meant it
b|in_stock_now available_here|sold_out_now out_of_stock|there are some on the shelf;you can take one along today|the shelf is empty;the last one went yesterday
b|on_sale reduced|full_price|it is marked down this week;you pay less than usual|no discount this time;they want the full sum
b|second_hand used_one|brand_new_one|somebody had it before;it has a few scratches|it is still in the box;nobody used it before
b|recalled called_back_by_maker|no_recall|the maker wants all of them back;there was a warning in the paper|nobody has called it back;no warning was given
gtoxswkmlrjvafb|was_photographed photo_taken|no_photo|somebody took a picture;there is a photo of it;the camera was running|nobody had a camera;there is no picture of it;no photo was taken
gtoxswkmlrjvafb|was_raining in_the_rain|no_rain dry_day|it was pouring;all of it in the rain;everyone had an umbrella|the sun was out;the sky was clear all day;it stayed dry
gtoxswkmlrjvafb|made_public in_the_papers|kept_secret hushed_up|it was in all the papers;the radio told everybody;they put up a notice|nobody was told;they kept it quiet;not a word got out
gtoxswkmlrjvafb|got_permission was_allowed|forbidden without_permission|the office said yes;they had a stamp for it;it was allowed|it was forbidden;nobody had allowed it;they did it without asking
gtoxswkmlrjvafb|someone_hurt injuries|all_unhurt nobody_hurt|one of them broke an arm;there was blood;two had to see a doctor|all of them were fine;not a scratch;nobody was hurt
gtoxswkmlrjvafb|police_called police_came|no_police|the police came;somebody called the police;two officers wrote it all down|no police were needed;nobody called the police
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
AILMENTS = "whooping cough,a stiff neck,sunstroke,gout,a torn tendon,hives,scurvy,a cracked rib,shingles,hay fever,lumbago,snow blindness,croup,a burnt hand,vertigo,frostbite".split(
    ","
)
SUBJECTS = "botany,trigonometry,rhetoric,Latin,heraldry,bookkeeping,optics,shorthand,navigation,poetics,geometry,welding,hydraulics,phonetics,mycology,harmony".split(
    ","
)
OFFENCES = "poaching,forgery,smuggling,perjury,arson,embezzlement,trespassing,pickpocketing,bribery,fare dodging,libel,piracy".split(
    ","
)
PLANS = "new bridge,school roof,dog tax,tram line,market hall,parking ban,swimming pool,village fair,cycle path,tree rule,noise rule,fountain".split(
    ","
)
CREATURES = "otter,tawny owl,tortoise,fox cub,parakeet,hedgehog,grass snake,goat,ferret,swan,badger,jackdaw,peacock,gecko".split(
    ","
)
PLACES = "barn,bakery,sawmill,boathouse,bookshop,greenhouse,chapel,garage,inn,warehouse,stable,pavilion".split(",")
WARES = "kettle,mixer,lawn mower,headset,scooter,sewing machine,heater,toaster,camera,hair dryer,coffee grinder,vacuum cleaner,radio,tent,blender,watch".split(
    ","
)
COLORS = "teal,beige,maroon,navy blue,olive,lilac,ivory,mustard yellow,turquoise,charcoal,rust red,mint green".split(
    ","
)
