"""Everyday records for JSON and tools, many kinds in few words: the names of their values, sentences, requests.

A record is three lines or four: tools | slot: names=how it is drawn; ... then `>` sentences and `?` requests. How: p, f a
person, t town, s site, d date, w weekday, h clock, y year, c code, g phrase, n noun, m mail, i1-9 a number, x1-9 one with a
decimal, a word with commas: one of these, *kind a kind of WordNet's, yes/no phrases behind `b`.
"""

# ruff: noqa: E501  (a record's sentences stand in one line)

RECORDS = """
order_pizza order_food | d: dish pizza topping food meal=margherita,funghi,salami,hawaii,tuna,spinach,quattro formaggi; z: size portion=small,medium,large,huge; n: count number quantity how_many=i1-9; a: address deliver_to street where=s
> {n} {z} {d} pizzas to {a} please.|Someone at {a} ordered {n} pizzas, {z}, with {d}.|Deliver to {a}: {n}x {d}, {z}.
? We are hungry at {a}: {n} {z} {d} pizzas would be great|bring {n} {z} {d} to {a}|could {n} pizzas {d}, size {z}, come to {a}

bake log_baking | b: cake pastry product baked_good=brownie,muffin,scone,pretzel,strudel,waffle,tart,pudding; g: weight mass dough_weight=i50-2500; o: oven temperature degrees heat=i120-260; m: minutes baking_time duration time_in_oven=i5-90
> The {b} weighs {g} g and bakes for {m} minutes at {o} degrees.|{m} minutes in the oven at {o}, then your {b} ({g} grams) is done.|A {b} of {g} grams: heat the oven to {o} and wait {m} minutes.
? I want a {b} of {g} grams to bake {m} minutes at {o} degrees|my {b}, {g} g, should go in at {o} for {m} minutes

hotel book_room reserve_hotel | g: guest visitor traveler lodger booked_by=p; r: room_type room kind category=single,double,suite,twin,family room; n: nights stay length_of_stay=i1-21; k: breakfast with_breakfast meals_included=b breakfast included/without breakfast
> {g} takes a {r} for {n} nights, {k}.|Reservation: {g}, {n} nights, {r}, {k}.|For {n} nights we gave {g} the {r} ({k}).
? {g} will sleep here for {n} nights and wants a {r}, {k}|keep a {r} for {g}, {n} nights, {k}|I am {g} and need a {r} for the next {n} nights, {k}

open_ticket report_issue file_bug | d: device machine equipment hardware unit=printer,router,laptop,scanner,projector,monitor,server,tablet,badge reader; l: location office floor_or_room site=s; u: severity urgency priority level=low,medium,high,critical; r: reporter employee reported_by caller=p
> {r} says the {d} at {l} is broken; it is {u} priority.|The {d} in {l} stopped working, reported by {r}, severity {u}.|{u} alarm: {d} down at {l} ({r} called).
? the {d} at {l} does not work any more, {r} here, it is {u}|{r} cannot use the {d} at {l}. Urgency {u}|someone should look at the {d} in {l}, {u}, ask for {r}

add_pet register_animal | a: pet_name called name_of_animal=f; k: species animal kind_of_animal creature=cat,dog,parrot,hamster,rabbit,pony,goldfish,gecko,ferret,canary; o: owner keeper belongs_to=p; y: age years_old age_years=i1-18; v: vaccinated shots_done=b vaccinated/not vaccinated yet
> {o} came with {a}, a {y}-year-old {k}, {v}.|{a} is a {k} of {y} years, {v}, and lives with {o}.|New patient at the vet: {a} ({k}, {y}), owner {o}, {v}.
? {o} has a new {k} named {a}, {y} years old, {v}|my {k} {a} is {y}, {v}; I am {o}

plant_log sow add_crop | p: crop plant vegetable seed=carrots,leeks,beans,squash,lettuce,peas,beets,kale,turnips,corn; r: rows beds number_of_rows=i1-40; f: field garden plot place=s; w: sown_on planting_day day=w
> On {w} we planted {r} rows of {p} at {f}.|{f}: {r} rows of {p}, sown {w}.|{p} went into the ground at {f} on {w}, {r} rows of it.
? {r} rows of {p} should go in at {f} on {w}|I want to grow {p} at {f}: {r} rows, starting {w}

log_run add_workout track_training | s: sport activity exercise discipline=running,cycling,swimming,rowing,hiking,skating,yoga,boxing,climbing; m: minutes duration time_spent=i5-240; k: kilometers distance distance_km how_far=x1-60; e: heart_rate pulse bpm=i80-190
> {s} today: {k} km in {m} minutes, pulse {e}.|I did {m} minutes of {s}, {k} kilometers, my heart went at {e}.|After {k} km of {s} ({m} min) the watch showed {e} bpm.
? put down {k} km of {s} in {m} minutes at a pulse of {e}|I was {s} for {m} minutes, {k} km, heart at {e}

record_weather station_report | p: station town place_measured=t; t: temperature degrees_celsius temp=i-25-41; w: wind wind_speed wind_kmh=i0-120; r: rain rainfall precipitation_mm=i0-90; s: sky conditions weather=overcast,sunny,foggy,hazy,stormy,clear
> {p} reports {t} degrees, wind {w} km/h, {r} mm of rain, {s}.|It is {s} in {p}: {t} degrees, {w} km/h of wind and {r} mm on the ground.
? note for {p}: {s}, {t} degrees, wind {w}, rain {r}

loan lend_book checkout_book | b: book title borrowed_item volume=g; r: reader borrower patron member lent_to=p; k: due return_by due_date back_on=d; n: card card_number library_card=c
> {r} (card {n}) took "{b}" home and brings it back by {k}.|"{b}" is lent to {r}, card {n}, until {k}.|Until {k} the book "{b}" is with {r}; card {n}.
? {r} wants to read "{b}" until {k}, card {n}|may {r} keep "{b}" till {k}? The card is {n}

pay transfer_money send_payment | a: amount sum total euros=i1-5000; r: recipient payee to receiver beneficiary=p; s: sender payer from account_holder=p; w: purpose reason memo for_what reference=rent,gift,concert tickets,dinner,school fees,repairs,insurance
> {s} paid {r} {a} euros for {w}.|{a} euros went from {s} to {r} ({w}).|For {w}, {r} got {a} euros from {s}.
? {s} owes {r} {a} euros for {w}, please settle it|get {a} euros over to {r} from {s}, it is for {w}

doctor make_appointment | d: doctor physician specialist practitioner=p; k: complaint symptom problem reason_for_visit=cough,sore throat,back pain,headache,rash,sprained ankle,toothache,fever,dizziness; w: weekday day appointment_day=w; h: hour time slot=h
> {d} will look at the {k} on {w} at {h}.|Because of a {k} the visit to {d} is on {w}, {h}.|{w}, {h}: {d}, {k}.
? I have a {k} and would see {d} on {w} at {h}|my {k} is bad, is {d} free {w} at {h}

rent_car hire_car | v: vehicle car_type model car=van,convertible,minibus,pickup,limousine,camper,jeep,station wagon; n: days rental_days period=i1-30; t: pickup pickup_city from_where start_at=t; r: driver renter customer=p
> {r} has the {v} from {t} for {n} days.|In {t}, {r} picked up a {v}, paid for {n} days.|{n} days with a {v}: driver {r}, from {t}.
? {r} needs a {v} in {t} for {n} days|we land in {t} and {r} wants to drive a {v} for {n} days

flight_status add_flight | f: flight flight_number number=c; o: origin departs_from departure=t; d: destination arrives_in arrival bound_for=t; g: gate boarding_gate=A1,B12,C7,D40,E3,F21; m: delay minutes_late delay_minutes=i0-240
> Flight {f} from {o} to {d} leaves gate {g} {m} minutes late.|{m} minutes of delay for {f} ({o} - {d}), gate {g}.|{f} to {d} waits at {g}; it comes from {o} and is {m} minutes behind.
? {f} from {o} to {d} is {m} minutes late at gate {g}, write it down

hire add_employee onboard | e: employee hire new_hire worker=p; r: role position job_title profession=welder,accountant,cashier,florist,plumber,editor,designer,translator,electrician,analyst; s: salary pay wage annual_salary=i18000-99000; c: company employer firm=g; d: starts start_date first_day=d
> {e} joins {c} as a {r} on {d} for {s} a year.|{c} hired {e}: {r}, {s} a year, from {d}.|From {d}, {e} works at {c} as {r} and earns {s}.
? {c} wants {e} as {r} from {d} at {s}|sign up {e}, {r} at {c}, {s} a year, first day {d}

score report_match add_result | h: home_team home host=t; a: away_team guests visitors opponent=t; x: home_goals home_score goals_home=i0-9; y: away_goals away_score goals_away=i0-9; c: attendance crowd spectators=i50-90000
> {h} beat or met {a} {x}:{y} before {c} people.|{c} spectators saw {h} against {a}, {x} to {y}.|{h} - {a} ended {x}-{y}, crowd {c}.
? the game of {h} against {a} ended {x}:{y}, {c} people came

house list_property rent_flat | a: address location street_address=s; r: rooms number_of_rooms bedrooms=i1-12; m: square_meters area size_m2 surface=i20-400; p: rent monthly_rent price per_month=i200-4000; f: furnished with_furniture=b furnished/unfurnished
> {a}: {r} rooms, {m} square meters, {p} a month, {f}.|For {p} a month you get {r} rooms ({m} m2) at {a}, {f}.|The {f} flat at {a} has {r} rooms on {m} square meters and costs {p}.
? put the flat at {a} online: {r} rooms, {m} square meters, {p}, {f}|I let my {f} flat at {a}, {r} rooms, {m} m2, for {p}

recipe save_recipe | d: dish recipe meal food=goulash,paella,risotto,ramen,lasagna,chili,ratatouille,dumplings,tacos,falafel; n: servings people portions serves=i1-12; m: minutes cooking_time time_needed=i5-240; v: vegetarian meat_free=b vegetarian/with meat
> {d} for {n} people takes {m} minutes and is {v}.|In {m} minutes you have {d} for {n}, {v}.|Tonight: {d}, {v}, {n} servings, {m} min.
? I cook {d} for {n}, {v}, it takes {m} minutes; keep it|remember my {d}: {n} portions, {m} minutes, {v}

movie add_film rate_movie | t: film movie title=g; d: director made_by filmmaker=p; y: year release_year released=y; s: stars rating score out_of_ten=i1-10; m: runtime length minutes=i60-220
> {d} made "{t}" in {y}; it runs {m} minutes and I give it {s} out of 10.|"{t}" ({y}, {d}) is {m} minutes long, rated {s}.|Saw "{t}" by {d} from {y}: {m} minutes, {s} points.
? "{t}" by {d}, {y}, {m} minutes, was worth {s} of 10 to me

concert buy_concert_tickets | b: band artist act performer=g; h: hall venue stadium place=s; d: date evening night_of on=d; n: tickets seats how_many_tickets=i1-8; r: row seat_row=i1-60
> {b} plays {h} on {d}; we have {n} tickets in row {r}.|{n} seats, row {r}, for {b} at {h} on {d}.|On {d} the {b} are at {h}. Row {r}, {n} people.
? {n} of us want to hear {b} at {h} on {d}, row {r}|get {n} seats in row {r} for {b}, {h}, {d}

parcel ship_package track_parcel | s: sender shipper from=p; r: recipient addressee to=p; w: weight kilos weight_kg=x1-40; c: carrier courier company=DHL,UPS,FedEx,GLS,Hermes,DPD; i: insured with_insurance=b insured/not insured
> {s} sent {r} a parcel of {w} kg with {c}, {i}.|{c} brings a parcel of {w} kilos from {s} to {r} ({i}).|A package for {r}, {w} kg, {i}, handed to {c} by {s}.
? {s} has {w} kg for {r}, should go with {c}, {i}|take my parcel to {r}: {w} kg, by {c}, {i}. I am {s}

museum add_exhibit catalog_artwork | o: object artwork exhibit piece=vase,mask,portrait,tapestry,bust,fresco,manuscript,brooch,amphora; m: material medium made_of=bronze,marble,clay,ivory,oak,silver,linen,jade,glass; c: century age period=i1-20; a: artist creator made_by=p
> The {m} {o} from century {c} is by {a}.|{a} made this {o} of {m} in the {c}th century.|{o}, {m}, century {c}, attributed to {a}.
? we got a {o} of {m} by {a}, century {c}, for the collection

mountain log_climb | m: mountain peak summit=g; h: height elevation altitude meters=i400-8800; c: climber mountaineer led_by=p; n: hours hours_needed climbing_time=i1-30; o: oxygen with_oxygen bottled_oxygen=b with oxygen/without oxygen
> {c} climbed {m} ({h} m) in {n} hours {o}.|It took {c} {n} hours to the top of {m}, {h} meters, {o}.
? {c} stood on {m}, {h} meters, after {n} hours {o}; log it

train_ticket buy_train_ticket | f: from departure origin start=t; t: to destination arrival=t; c: class travel_class comfort=first,second,business,economy; r: return return_trip round_trip=b return/one way; h: departs at time departure_time=h
> A {c} class ticket from {f} to {t} at {h}, {r}.|{f} to {t}, {h}, {c} class, {r}.|The {h} train takes me from {f} to {t}, {c} class, {r}.
? I have to be in {t}, leaving {f} at {h}, {c} class, {r}|{r} ticket {f} - {t}, {c} class, train at {h}

set_alarm wake_me | h: time alarm wake_at when=h; w: day weekday on=w; s: sound tone melody=birds,bells,rooster,piano,waves,harp,buzzer; r: repeat weekly every_week=b every week/only once
> The alarm rings on {w} at {h} with {s}, {r}.|{w}, {h}: {s}, {r}.
? I must be up on {w} by {h}, {r}, use {s}|wake me {w} at {h} with {s}, {r}

lights set_light dim | r: room area zone=kitchen,hall,attic,cellar,nursery,porch,garage,study,bedroom,bathroom; l: level brightness percent intensity=i0-100; c: color colour hue tint=red,amber,white,blue,violet,green,warm white
> The {r} light is {c} at {l} percent.|{l}% {c} light in the {r}.|In the {r}, lamps were set to {c}, {l} percent.
? it is too dark in the {r}, {l} percent {c} would be nice|make the {r} {c}, at {l}|the {r} could use {c} light, about {l} percent

thermostat heat_room set_heating | r: room zone where=kitchen,lounge,bedroom,office,workshop,sauna,classroom; t: temperature target degrees=i8-30; u: until end_time till=h; f: fan ventilation fan_on=b with the fan on/with the fan off
> The {r} is kept at {t} degrees until {u}, {f}.|{t} degrees in the {r} till {u} {f}.
? it's chilly in the {r}: {t} degrees until {u}, {f}|I'd like the {r} at {t} till {u}, {f}

play_music queue_song | s: song track tune piece=g; a: artist singer band composer by=p; v: volume loudness=i1-100; d: speaker device output=kitchen speaker,headphones,radio,tv,car stereo
> "{s}" by {a} is on the {d} at volume {v}.|The {d} plays {a}: "{s}" ({v}).
? I feel like "{s}" from {a} on the {d}, loudness {v}|let the {d} play {a}'s "{s}" at {v}

timer start_timer countdown | n: minutes length duration=i1-180; w: label what for name=eggs,pasta,laundry,tea,meditation,rice,roast,break
> {n} minutes for the {w}.|The {w} timer runs {n} minutes.
? my {w} needs {n} minutes|tell me when {n} minutes are over, it's for {w}|{w} on, {n} min

reminder remind_me note_task add_todo | t: task what todo action=water the plants,call the bank,pay the bill,feed the cat,buy stamps,return the keys,clean the oven,book the dentist; d: day date when on=d; h: hour time at=h; p: person who assigned_to for=f
> {p} has to {t} on {d} at {h}.|On {d}, {h}, {p} must {t}.|"{t}" is for {p}: {d} at {h}.
? {p} must not forget to {t} on {d} at {h}|see that {p} will {t}, {d}, {h}

shopping add_to_cart shopping_list | i: item product article good=milk,flour,soap,batteries,tea bags,olives,candles,noodles,sponges,coffee; n: amount quantity count units=i1-24; b: brand maker label=g; s: store shop market where=s
> {n} packs of {i} from {b} at {s}.|At {s} buy {i}, {n} of them, brand {b}.|We need {i} ({n}, {b}); {s} has it.
? we ran out of {i}: {n} packs of {b} from {s}|get me {n} {i} by {b} when you are at {s}

translate translate_text | t: text phrase words=g; f: source_language from_language original=Danish,Turkish,Latin,Czech,Irish,Thai,Urdu; g: target_language to_language into=Spanish,Welsh,Arabic,Russian,Hebrew,Maltese
> "{t}" goes from {f} into {g}.|Turn the {f} words "{t}" into {g}.
? what would "{t}" be in {g}? It is {f}|my aunt only reads {g}, put the {f} "{t}" into it

convert_units unit_converter | v: value amount number=i1-900; f: from_unit unit source=miles,pounds,gallons,inches,acres,ounces,feet; t: to_unit target into=kilometers,kilograms,liters,centimeters,hectares,grams,meters
> {v} {f} in {t}.|From {f} to {t}: {v}.
? how many {t} are {v} {f}|I only understand {t}; what are {v} {f}

stock buy_shares trade | c: company stock share=g; n: shares quantity number_of_shares=i1-500; p: price limit per_share=i2-900; k: side order_type action=buy,sell
> {k} {n} shares of {c} at {p}.|{c}: {k} {n} at {p} each.
? I would {k} {n} {c} shares if the price is {p}

taxi book_taxi call_cab | f: pickup pickup_address from=s; t: dropoff destination to=s; n: passengers people riders=i1-7; h: time pickup_time at=h
> A taxi for {n} from {f} to {t} at {h}.|{h}: {n} people, {f} to {t}.
? {n} of us stand at {f} and must be at {t}; leave at {h}|at {h}, {n} people need to get from {f} to {t}

table reserve_table | r: restaurant place_name venue diner=g; n: people guests party_size persons=i1-20; d: date day on=d; h: time hour at=h; o: outside terrace outdoors=b outside/inside
> A table {o} for {n} at {r}, {d}, {h}.|{r} expects {n} guests on {d} at {h}, {o}.
? {n} of us want to eat at {r} on {d} at {h}, {o}|dinner for {n}, {r}, {d}, {h}, {o}

school enroll_student | s: student pupil child=p; g: grade class year school_year=i1-12; t: teacher tutor taught_by=p; k: subject favorite_subject course=algebra,history,biology,art,music,Latin,chemistry
> {s} is in grade {g}, has {t} as a teacher and likes {k}.|{t} teaches {s} (grade {g}) {k}.
? {s} comes to grade {g}, teacher {t}, subject {k}

grade record_grade exam | s: student candidate examinee=p; k: subject exam course=physics,grammar,geometry,German,economics,drawing; p: points score marks result=i0-100; x: passed pass success=b passed/did not pass
> {s} got {p} points in {k} and {x}.|In {k}, {s} {x} with {p} points.
? {s} wrote the {k} exam, {p} points, {x}

blood lab_result | p: patient person tested=p; t: test marker measured=iron,sugar,cholesterol,calcium,vitamin D,sodium; v: value level result=x1-200; n: normal within_range ok=b normal/out of range
> The {t} of {p} is {v}, {n}.|{p}: {t} {v} ({n}).
? {p} had {t} measured at {v}, {n}; file it

medicine prescribe add_medication | m: medicine drug medication remedy=ibuprofen,insulin,cough syrup,aspirin,antibiotic,eye drops,iron pills; d: dose dosage milligrams mg=i5-900; n: times_a_day per_day frequency=i1-4; p: patient taken_by who=p
> {p} takes {d} mg of {m} {n} times a day.|{m}, {d} mg, {n} times daily for {p}.
? {p} needs {m}: {d} mg, {n} times a day

farm add_livestock | a: animal livestock species=goats,geese,cows,llamas,hens,pigs,donkeys,ostriches; n: number head herd_size count=i2-600; f: farmer owner rancher=p; l: liters milk daily_output per_day=i0-900
> {f} has {n} {a} that give {l} liters a day.|{n} {a} stand at the farm of {f}; {l} liters a day.
? {f} bought {n} {a}, they give {l} liters

wine cellar add_bottle | w: wine grape variety=Merlot,Riesling,Malbec,Rioja,Chardonnay,Shiraz; y: vintage year harvested=y; r: region origin from=t; n: bottles stock left=i1-90
> {n} bottles of {w} from {r}, {y}.|The {y} {w} of {r}: {n} bottles left.
? we laid down {n} bottles of {w}, {r}, {y}

bridge inspect_structure | b: structure bridge name=g; l: length span meters_long=i10-3000; y: built year_built opened=y; e: engineer inspector designer=p; s: safe passed approved=b safe/closed for repairs
> The {b} bridge, {l} m long, built in {y} by {e}, is {s}.|{e} designed the {b} bridge in {y}: {l} meters. It is {s}.
? {e} looked at the {b} bridge ({l} m, {y}): it is {s}

song_contest register_singer | s: singer contestant performer=p; c: country nation representing=Malta,Norway,Chile,Ghana,Nepal,Cuba,Latvia; p: points votes jury_points=i0-500; r: rank place position=i1-26
> {s} of {c} got {p} points and place {r}.|Place {r} with {p} points: {s}, {c}.
? {c}'s {s} has {p} points and rank {r}

spacecraft launch_rocket log_launch | r: rocket launcher spacecraft=g; p: payload cargo satellite=weather satellite,telescope,rover,space station module,capsule; k: payload_mass kg cargo_weight=i50-20000; d: launch_date lifts_off on=d
> The rocket {r} lifts a {p} of {k} kg on {d}.|On {d}, {r} carries {k} kilos: a {p}.
? {r} goes up on {d} with a {p}, {k} kg

factory log_production | p: product goods made=shoes,lamps,bolts,kettles,toys,tires,pens,chairs; n: pieces produced units output=i10-9000; s: shift crew_shift=early,late,night; d: defects rejects faulty=i0-90; m: foreman supervisor manager=p
> {m}'s {s} shift made {n} {p}, {d} of them faulty.|{n} {p} from the {s} shift ({m}), {d} rejects.
? the {s} shift under {m} is done: {n} {p}, {d} bad ones

election count_votes | c: candidate politician name=p; v: votes ballots votes_received=i100-90000; p: percent share vote_share=x1-90; t: district constituency town=t; e: elected won winner=b elected/not elected
> {c} got {v} votes in {t}, {p} percent, and was {e}.|In {t}: {c}, {v} votes ({p} %), {e}.
? {t} is counted: {c} has {v} votes, {p} percent, {e}

crime file_report | i: item stolen stolen_item loot=bicycle,necklace,wallet,painting,laptop,tractor; v: victim owner reported_by=p; p: place scene where=s; w: witness seen_by observer=p; d: day weekday happened_on=w
> On {d} a {i} of {v} was stolen at {p}; {w} saw it.|{w} watched how someone took the {i} of {v} at {p} on {d}.
? {v}'s {i} is gone since {d}, it was at {p}, {w} saw it

fire_alarm dispatch send_help | k: emergency incident type=fire,flood,gas leak,car crash,fall,power cut; a: address location where=s; n: injured hurt casualties=i0-12; c: caller reported_by phone_name=p
> {k} at {a}, {n} injured, {c} called.|{c} reports a {k} at {a} with {n} people hurt.
? there is a {k} at {a}! {n} are hurt. My name is {c}

garden_tool tool_rental | t: tool equipment machine=chainsaw,lawn mower,drill,ladder,cement mixer,pressure washer; h: hours rental_hours time=i1-72; d: deposit caution security=i10-400; c: customer hirer person=p
> {c} took the {t} for {h} hours and left {d} as deposit.|The {t}: {h} hours, deposit {d}, {c}.
? {c} wants our {t} for {h} hours, pays {d} deposit

bus_line add_stop | l: line route bus_number=i1-400; s: stop station halt=s; m: interval every_minutes frequency=i2-60; w: wheelchair accessible barrier_free=b accessible/not accessible
> Line {l} stops at {s} every {m} minutes, {w}.|{s} ({w}): bus {l}, every {m} min.
? the bus {l} should stop at {s} every {m} minutes, {w}

painting_job paint_wall | s: surface object thing_to_paint=fence,ceiling,door,boat shed,hallway,balcony,gate; c: color paint shade=ivory,mint,navy,crimson,gray,ochre,lilac; n: coats layers number_of_coats=i1-4; p: painter worker by=f
> {p} gives the {s} {n} coats of {c}.|{n} layers of {c} on the {s}, done by {p}.
? {p} should do the {s} in {c}, {n} coats

clothes order_clothes | g: garment clothing item piece=sweater,raincoat,kilt,vest,pajamas,scarf,dress,hoodie; z: size fit=XS,S,M,L,XL; m: fabric material cloth=wool,linen,denim,silk,fleece,velvet; p: price cost euros=i5-400
> A {m} {g}, size {z}, for {p} euros.|The {g} ({z}, {m}) costs {p}.
? I am after a {m} {g} in {z} for {p} euros

game save_game | p: player gamer nickname=f; l: level stage world=i1-99; s: score points high_score=i10-99999; h: lives hearts lives_left=i0-9
> {p} is on level {l} with {s} points and {h} lives.|Level {l}, {s} points, {h} lives left: {p}.
? keep where {p} is: level {l}, {s} points, {h} lives

chess record_game | w: white first_player plays_white=p; b: black second_player plays_black=p; m: moves number_of_moves length=i10-120; r: result outcome winner=white,black,draw
> {w} (white) against {b} (black), {m} moves, result: {r}.|After {m} moves {w} with white and {b} with black were done: {r}.
? {w} had white, {b} black, {m} moves, it ended {r}

code_review open_merge_request | b: branch source_branch head=c; a: author developer submitted_by=f; n: files files_changed changed=i1-90; t: tests tests_pass green=b tests pass/tests fail; r: reviewer checked_by=f
> {a} changed {n} files on {b}, {t}, {r} reviews it.|Branch {b} by {a}: {n} files, {t}, reviewer {r}.
? {a} is done with {b}, {n} files, {t}; {r} should look

server add_host deploy | h: host machine server=c; m: memory ram gigabytes=i1-900; c: cores cpus processors=i1-128; o: os system operating_system=Debian,Windows,FreeBSD,Fedora,Alpine; i: ip address ip_address=ip
> {h} at {i} runs {o} with {c} cores and {m} GB.|{o} on {h} ({i}): {c} cores, {m} GB of memory.
? bring up {h} on {i} with {o}, {c} cores, {m} GB

backup run_backup | f: folder source path=/var/www,/home/ann,/srv/git,/data/mail,/opt/app; t: target destination to=tape,cloud,usb disk,nas; s: size gigabytes gb=i1-900; e: encrypted secure=b encrypted/not encrypted
> {f} ({s} GB) goes to the {t}, {e}.|Backup of {f} to {t}: {s} GB, {e}.
? copy {f} to the {t} tonight, {s} GB, {e}

email send_mail | t: to recipient addressee=m; s: subject topic title=g; f: from sender=m; a: attachment file attached=report.pdf,photo.jpg,plan.xlsx,notes.txt,bill.pdf
> {f} wrote to {t} about "{s}" and attached {a}.|To {t}, from {f}, subject "{s}", with {a}.
? {t} should get {a} from {f}, subject "{s}"

complaint log_complaint | c: customer client who=p; p: product item article=kettle,toaster,vacuum,blender,sofa,headset,stroller; i: issue problem defect=leaks,smells,is too loud,arrived late,has scratches,does not start; r: refund wants_refund money_back=b wants a refund/does not want a refund
> {c} says the {p} {i} and {r}.|The {p} of {c} {i}. {c} {r}.
? my {p} {i}, I am {c}, put down that {c} {r}

survey submit_feedback | r: respondent name person=f; s: satisfaction rating stars=i1-5; k: recommends would_recommend=b would recommend us/would not recommend us; a: age years=i16-90
> {r}, {a}, gave {s} stars and {k}.|{s} stars from {r} ({a} years), who {k}.
? {r} is {a} and gives {s} stars, {k}

wedding plan_wedding | b: bride first_partner=p; g: groom second_partner=p; v: venue location held_at=s; n: guests invited headcount=i10-400; d: date wedding_day on=d
> {b} marries {g} on {d} at {v} before {n} guests.|The wedding of {b} and {g}: {v}, {d}, {n} guests.
? {b} and {g} marry at {v} on {d} with {n} guests

fishing log_catch | f: fish catch species=trout,salmon,perch,eel,cod,pike,carp,herring; w: weight kilos kg=x1-30; a: angler fisher caught_by=p; l: water lake river where=g; r: released set_free thrown_back=b released/kept
> {a} caught a {f} of {w} kg in the {l}, {r}.|A {f}, {w} kilos, from the {l}: {a}, {r}.
? {a} pulled a {f} of {w} kg out of the {l}, {r}

birdwatch report_sighting | b: bird species seen=heron,kestrel,robin,stork,finch,crane,magpie,owl; n: number how_many count=i1-300; o: observer birder spotted_by=p; p: place location habitat=s; t: time hour seen_at=h
> {o} saw {n} {b}s at {p} at {t}.|{n} {b}s at {p}, {t}, spotted by {o}.
? {o} counted {n} {b}s at {p}, {t}

camp book_campsite | f: family group_name party=g; t: tents number_of_tents=i1-9; n: nights duration=i1-21; d: dog dogs_allowed with_dog=b with a dog/without a dog; w: arrival arriving from=d
> The {f} family comes on {w} with {t} tents for {n} nights, {d}.|{t} tents, {n} nights from {w}, {f}, {d}.
? we are the {f} family, {t} tents, {n} nights from {w}, {d}

language_course enroll_course | c: course language class=Italian,Korean,Finnish,Swahili,Greek,Basque; l: level stage=A1,A2,B1,B2,C1; t: teacher instructor taught_by=p; f: fee price tuition=i20-900; w: weekday meets_on day=w
> {c} {l} with {t} on {w}s costs {f}.|{t} teaches {c} ({l}) every {w}; the fee is {f}.
? I'd like to learn {c}, level {l}, with {t} on {w}, fee {f}

repair_car garage_job | v: car vehicle model=Fiat,Volvo,Skoda,Mazda,Saab,Jeep,Lada; p: part component repaired=clutch,brakes,exhaust,radiator,windshield,battery,gearbox; c: cost bill price=i20-3000; m: mechanic repaired_by worker=f; k: mileage kilometers odometer=i1000-300000
> {m} changed the {p} of the {v} ({k} km) for {c}.|The {v} with {k} km needs a new {p}: {c}, {m} does it.
? my {v}, {k} km, has a bad {p}; {m} asks {c}

coffee order_coffee order_drink | d: drink beverage coffee=espresso,latte,cocoa,chai,mocha,matcha,lemonade; z: size cup=small,tall,grande,large; s: sugars spoons sugar_cubes=i0-5; m: milk milk_type kind_of_milk=oat,soy,almond,whole,skimmed; f: name for customer=f
> A {z} {d} with {m} milk and {s} sugars for {f}.|{f} drinks {d}, {z}, {m} milk, {s} sugars.
? {f} is thirsty: {z} {d}, {m} milk, {s} sugars|make {f} a {z} {d} with {m} milk and {s} sugars

cinema reserve_seats | m: movie film showing=g; r: row seat_row=A,B,C,F,K,M; n: seats tickets people=i1-9; h: showtime starts time=h; t: three_d in_3d=b in 3D/in 2D
> {n} seats in row {r} for "{m}" at {h}, {t}.|"{m}" at {h}, {t}: row {r}, {n} people.
? {n} of us want to watch "{m}" at {h} in row {r}, {t}

laundry wash_clothes | l: load laundry items=towels,shirts,jeans,sheets,socks,curtains; t: temperature degrees wash_at=i20-95; s: spin rpm spin_speed=i400-1600; d: dryer tumble_dry dry=b with drying/without drying
> {l} at {t} degrees, {s} rpm, {d}.|Wash the {l}: {t} degrees, spin {s}, {d}.
? the {l} are dirty, {t} degrees, {s} rpm, {d}

insurance file_claim | h: holder policyholder insured=p; p: policy policy_number contract=c; d: damage cause event=hail,theft,burst pipe,lightning,broken glass; a: amount loss claim_amount=i50-90000
> {h}, policy {p}, claims {a} for {d}.|{d} cost {h} {a}; the policy is {p}.
? {h} has a damage of {a} by {d}, policy {p}

dance_class add_dancer | d: dance style=tango,salsa,waltz,polka,ballet,flamenco,foxtrot; l: lead leader first_dancer=f; f: follower partner second_dancer=f; b: beats bpm tempo=i60-200
> {l} and {f} dance {d} at {b} beats: {l} leads.|{l} leads {f} in a {d}, {b} bpm.
? {l} wants to lead {f} through a {d} at {b} beats

gem appraise jewelry | g: gem stone jewel=ruby,opal,emerald,topaz,pearl,garnet; c: carat carats weight=x1-30; m: metal setting mounted_in=gold,silver,platinum,steel; v: value worth appraised_at=i50-90000
> A {g} of {c} carats in {m}, worth {v}.|The {m} ring with a {c} carat {g} is worth {v}.
? what we have is a {g}, {c} carats, in {m}; it is worth {v}

podcast publish_episode | t: title episode name=g; h: host presenter moderator=p; g: guest interviewee visitor=p; m: minutes length duration=i5-180; n: number episode_number issue=i1-400
> Episode {n}, "{t}": {h} talks to {g} for {m} minutes.|{h} has {g} as guest in "{t}" (no. {n}, {m} min).
? number {n} is ready, "{t}", {h} with {g}, {m} minutes

lost_found report_lost | i: item object lost_thing=umbrella,glove,phone,backpack,ring,passport,teddy bear; c: color colour looks=red,gray,beige,striped,black,green; p: place lost_at where=s; o: owner lost_by person=p; r: reward finder_gets=i5-300
> {o} lost a {c} {i} at {p}; the reward is {r}.|A {c} {i} was lost at {p}. {o} gives {r}.
? I left my {c} {i} at {p}, I am {o} and pay {r}|{o} misses a {c} {i}, last seen at {p}, reward {r}

elevator move_goods forklift | g: goods cargo pallet=bricks,cartons,barrels,pipes,sacks,tiles; f: floor level storey=i1-60; n: count boxes amount=i1-400; d: dock bay gate=c
> {n} {g} from dock {d} to floor {f}.|Floor {f} gets {n} {g} that wait at {d}.
? the {n} {g} at {d} belong on floor {f}

pool book_lane swim_lesson | s: swimmer student name=p; l: lane track=i1-10; d: depth meters pool_depth=x1-5; w: weekday day on=w; c: coach trainer teacher=p
> {s} swims in lane {l} ({d} m deep) on {w} with {c}.|{c} trains {s} on {w}, lane {l}, depth {d}.
? {s} wants to swim with {c} on {w}, lane {l}, {d} m

mine log_ore | o: ore mineral metal=copper,tin,zinc,gold,cobalt,nickel; t: tons output tonnage=i1-9000; d: depth shaft_depth meters_down=i10-3000; m: mine pit site=g
> The {m} mine gave {t} tons of {o} from {d} m.|{t} tons of {o} came up from {d} meters at {m}.
? {m} delivered {t} tons of {o} from a depth of {d}

charity donate | d: donor giver benefactor=p; a: amount donation gift=i1-9000; c: charity cause organization=g; m: monthly recurring every_month=b every month/only once
> {d} gives {a} to {c} {m}.|{c} gets {a} from {d}, {m}.
? {d} would like to support {c} with {a}, {m}

beehive inspect_hive | h: hive colony box=i1-90; q: queen queen_seen=b queen seen/no queen; f: frames honey_frames combs=i1-20; b: beekeeper keeper inspected_by=p; v: varroa mites mite_count=i0-60
> {b} opened hive {h}: {f} frames, {q}, {v} mites.|Hive {h} ({b}): {q}, {v} mites on {f} frames.
? {b} looked into hive {h}, {f} frames, {q}, {v} mites

phone_plan change_plan | c: customer subscriber user=p; g: data gigabytes data_gb=i1-200; p: price monthly_fee cost=i3-90; n: number phone phone_number=ph; r: roaming abroad works_abroad=b with roaming/without roaming
> {c} ({n}) gets {g} GB for {p} a month, {r}.|{g} GB, {p} a month, {r}: {c}, {n}.
? {c} with number {n} wants {g} GB for {p}, {r}

meeting_room reserve_room | r: room meeting_room hall=g; o: organizer host booked_by=p; n: attendees people seats=i2-90; p: projector beamer needs_projector=b with a projector/without a projector; h: start begins from=h
> {o} has the {r} room at {h} for {n} people, {p}.|The {r} room is booked by {o}: {h}, {n} people, {p}.
? {n} of us meet at {h} in the {r} room, {p}; ask {o}

add_patent register_invention | i: invention device gadget=can opener,hearing aid,solar oven,folding chair,water pump,night light; v: inventor creator patented_by=p; n: patent_number patent id=c; y: year granted patented_in=y
> {v} got patent {n} for a {i} in {y}.|In {y} the {i} of {v} was protected as {n}.
? protect the {i} that {v} made in {y}, number {n}|{v} has a new {i}, number {n}, year {y}

book_babysitter find_sitter | c: children kids number_of_children=i1-6; f: from_time start begins=h; u: until end back_by=h; s: sitter babysitter carer=f; d: day evening weekday=w
> {s} watches {c} children on {d} from {f} until {u}.|On {d}, {f} to {u}, {s} is with the {c} kids.
? we go out on {d} from {f} to {u}, {s} should mind our {c} kids|could {s} sit with {c} children {d}, {f} till {u}

mow cut_hair salon_booking | s: style haircut cut=bob,fringe,crew cut,braids,curls,pixie; k: stylist barber hairdresser=f; h: time slot hour=h; c: client customer guest=p; l: length centimeters cut_cm=i1-30
> {k} gives {c} a {s} at {h}, {l} cm shorter.|{c} wants a {s} from {k} at {h}; {l} cm come off.
? {c} would like a {s}, {l} cm shorter, with {k} at {h}

send_flowers order_bouquet | f: flower blossom kind=roses,tulips,lilies,daisies,orchids,asters,dahlias; n: stems number how_many=i1-99; c: color colour shade=white,yellow,pink,red,purple; r: recipient for_whom lucky_one=p; m: card message greeting=Get well,Happy birthday,Sorry,Thank you,I miss you
> {n} {c} {f} for {r} with the card "{m}".|{r} gets {c} {f}, {n} of them; the card says "{m}".
? make {r} happy with {n} {c} {f} and "{m}" on the card|{n} {f} in {c} for {r}, write "{m}"

park_car find_parking | p: plate license_plate registration=c; l: level deck floor=i1-9; h: hours parking_time duration=i1-24; e: electric needs_charging charger=b with charging/without charging
> The car {p} stands on level {l} for {h} hours, {e}.|Level {l}: {p}, {h} hours, {e}.
? I want to leave my car {p} for {h} hours on level {l}, {e}

print_document print_file | f: file document filename=thesis.pdf,invoice.docx,poster.png,menu.txt,list.csv; c: copies number_of_copies times=i1-90; s: sides duplex both_sides=b on both sides/on one side; k: paper paper_size format=A3,A4,A5,letter,legal
> {c} copies of {f} on {k}, {s}.|{f}: {k}, {s}, {c} times.
? I need {f} on paper, {c} times, {k}, {s}

call_phone start_call | w: contact whom person=p; v: video with_video camera_on=b with video/audio only; m: minutes limit max_length=i1-120; d: device from_device phone=mobile,landline,tablet,headset
> A call with {w}, {v}, {m} minutes, from the {d}.|{w} was on the {d} for {m} minutes, {v}.
? I have to talk to {w} for {m} minutes, {v}, on the {d}|get {w} on the {d}, {v}, {m} minutes

order_part spare_part | p: part component piece=gasket,filter,bolt,hinge,valve,belt,fuse,bearing; n: quantity pieces count=i1-500; s: supplier vendor dealer=g; u: unit_price each price_per_piece=x1-90
> {n} pieces of the {p} come from {s} at {u} each.|{s} sells the {p} for {u}; we take {n}.
? we are short of the {p}, have {s} send {n} at {u} each

track_expense log_expense | k: category kind type=food,travel,rent,fun,health,clothes; a: amount sum euros spent=i1-900; d: date day spent_on=d; m: method paid_with payment=cash,card,transfer,check; s: shop payee where=s
> {a} for {k} at {s} on {d}, paid by {m}.|On {d} {a} went to {s} ({k}, {m}).
? I spent {a} on {k} at {s}, {d}, by {m}

adopt_tree plant_tree | t: tree species kind=oak,birch,willow,cedar,maple,linden; h: height meters tall=x1-40; a: age years old=i1-400; p: place park location=s; g: guardian adopter caretaker=p
> {g} cares for a {t} of {h} m and {a} years at {p}.|At {p} stands a {t}, {a} years old, {h} meters high; {g} looks after it.
? {g} wants to adopt the {t} at {p}, {h} m, {a} years

water_level measure_river | r: river stream water=g; c: level centimeters water_cm=i10-900; f: flood flood_warning alarm=b flood warning/no warning; t: time measured_at hour=h; s: station gauge post=s
> At {s} the {r} stood at {c} cm at {t}, {f}.|{t}, {s}: {r} {c} cm, {f}.
? the gauge {s} shows {c} cm for the {r} at {t}, {f}

interview schedule_interview | a: applicant candidate interviewee=p; j: position role vacancy=nurse,driver,clerk,tutor,guard,gardener; i: interviewer recruiter led_by=p; d: date day on=d; o: online remote video_call=b online/in person
> {i} meets {a} about the {j} job on {d}, {o}.|{a}, {j}, sees {i} on {d} {o}.
? {a} applied as {j}; {i} can do {d}, {o}

sell_house make_offer | b: bidder buyer interested=p; o: offer bid amount=i10000-900000; p: property house object=villa,cottage,loft,farmhouse,bungalow,castle; t: town city place=t; c: cash cash_payment no_loan=b in cash/with a loan
> {b} offers {o} for the {p} in {t}, {c}.|For the {p} in {t} there is a bid of {o} from {b}, {c}.
? {b} would give {o} {c} for the {p} in {t}

test_drive test_vehicle | m: model car make=Golf,Corolla,Panda,Clio,Octavia,Civic; d: driver tester person=p; k: kilometers distance driven=i1-200; r: range battery_range reach=i100-700
> {d} drove the {m} for {k} km; its range is {r} km.|The {m} reaches {r} km, {d} tried it over {k} km.
? {d} wants to try the {m} for {k} km, range {r}

study_group join_group | t: topic subject theme=algebra,poetry,optics,grammar,genetics,logic; l: leader organizer tutor=f; n: members size participants=i2-30; r: room place meets_in=s; w: weekday day meets_on=w
> {l} leads {n} people through {t} on {w} at {r}.|{t}, every {w}, {r}: {n} members with {l}.
? {l} starts a group on {t}, {n} people, {w}, {r}

mix_drink cocktail | d: drink cocktail name=mojito,spritz,martini,punch,eggnog,daiquiri; b: base spirit main_ingredient=rum,gin,vodka,whisky,tequila; m: milliliters ml volume=i20-500; i: ice with_ice iced=b with ice/without ice
> A {d}: {m} ml with {b}, {i}.|{b} is in the {d}, {m} ml, {i}.
? mix me a {d} on {b}, {m} ml, {i}

water_plants irrigate | p: plant plants crop=ferns,roses,tomatoes,herbs,cactus,palms; l: liters amount water=x1-40; z: zone bed area=balcony,greenhouse,front yard,terrace,window; h: time at when=h
> The {p} in the {z} get {l} liters at {h}.|At {h}, {l} liters go to the {p}, {z}.
? the {p} in the {z} look dry, give them {l} liters at {h}

crew_shift assign_shift | w: worker employee who=f; s: shift duty part_of_day=morning,noon,evening,night; p: post station counter=gate,till,kitchen,reception,warehouse; d: date day on=d; o: overtime extra_hours extra=i0-6
> {w} has the {s} shift at the {p} on {d}, {o} hours overtime.|On {d} {w} works {s}s at the {p} with {o} extra hours.
? {w} can do the {s} at the {p} on {d}, {o} hours extra

visa travel_document | h: holder traveler applicant=p; n: nationality citizen_of from_country=Swiss,Kenyan,Peruvian,Danish,Korean,Irish; d: days valid_days stay=i3-180; e: entries times_allowed number_of_entries=i1-5; p: purpose reason why=study,work,family,tourism,transit
> {h}, {n}, may enter {e} times for {p} and stay {d} days.|Visa for {h} ({n}): {p}, {d} days, {e} entries.
? {h} is {n} and wants to come for {p}, {d} days, {e} entries
"""
