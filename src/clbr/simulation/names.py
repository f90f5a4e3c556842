"""Names for the items and bundles of the tiny world, as in a shop."""

import numpy as np
from numpy.typing import NDArray

Names = tuple[str, ...]

# A theme: its title, which starts the names of its bundles, and the names of its items.
THEMES: tuple[tuple[str, str], ...] = (
    ("Desk", "keyboard, mouse, mouse mat, monitor stand, desk lamp, webcam, headset, USB hub, laptop sleeve, "
     "wrist rest, cable clips, second screen, docking station, foot rest, desk organiser, whiteboard, surge strip, "
     "ring light, lumbar cushion, screen wipes"),
    ("Coffee", "espresso cups, hand grinder, pour-over cone, paper filters, milk frother, house beans, decaf beans, "
     "kitchen scale, gooseneck kettle, French press, moka pot, travel mug, descaler, cold-brew jar, sugar cubes, "
     "biscotti, tamper, knock box, cup warmer, coffee table book"),
    ("Camping", "two-person tent, sleeping bag, camping mat, head torch, gas stove, tin mug, water filter, fire steel, "
     "folding chair, dry bag, trekking poles, first-aid kit, insect spray, hammock, tarp, pocket knife, compass, "
     "cool box, tent pegs, camp pillow"),
    ("Baking", "stand mixer, loaf tin, rolling pin, piping bags, proving basket, bread flour, dried yeast, cake stand, "
     "muffin tray, silicone spatula, oven thermometer, icing sugar, vanilla pods, baking stone, pastry brush, "
     "sourdough starter, cookie cutters, cooling rack, measuring spoons, oven gloves"),
    ("Garden", "trowel, secateurs, watering can, tomato seeds, potting soil, plant labels, garden twine, raised bed, "
     "compost bin, bird feeder, kneeling pad, gardening gloves, hose reel, seed trays, leaf rake, slug tape, "
     "herb pots, trellis, rain gauge, lawn seed"),
    ("Photo", "camera bag, tripod, prime lens, memory card, lens cloth, film rolls, photo paper, polarising filter, "
     "remote shutter, light meter, camera strap, spare battery, softbox, photo album, negative sleeves, "
     "grey card, lens hood, battery charger, backdrop, photo printer"),
    ("Running", "running shoes, running socks, water belt, reflective vest, sports watch, energy gels, foam roller, "
     "running cap, phone armband, trail shoes, wind jacket, compression sleeves, electrolyte tablets, "
     "blister plasters, running tights, massage ball, chest strap, skipping rope, kinesiology tape, race number belt"),
    ("Cycling", "cycling helmet, floor pump, chain oil, bike lock, rear light, front light, repair kit, panniers, "
     "bottle cage, bike computer, padded shorts, mudguards, multi-tool, tyre levers, inner tubes, bell, "
     "cycling gloves, child seat, bike stand, chain cleaner"),
    ("Painting", "watercolours, acrylic set, sable brushes, sketchbook, easel, palette knife, stretched canvas, gesso, "
     "charcoal sticks, masking fluid, brush cleaner, drawing board, gouache tubes, varnish, oil pastels, colour wheel, "
     "fineliners, kneaded rubber, paint apron, brush roll"),
    ("Music", "acoustic guitar, guitar strings, capo, music stand, metronome, tuner, audio interface, "
     "studio microphone, pop filter, ukulele, harmonica, drumsticks, practice pad, keyboard stand, jack cable, "
     "plectrums, loop pedal, sheet music, guitar strap, cajon"),
    ("Nursery", "baby blanket, night light, bath toys, wooden blocks, changing mat, muslin cloths, picture books, "
     "baby monitor, high chair, stacking cups, soft rattle, baby carrier, feeding spoons, bibs, sleep suit, "
     "play gym, teething ring, nappy bag, bath thermometer, cot mobile"),
    ("Board games", "chess set, playing cards, dice tower, strategy game, word game, jigsaw puzzle, card sleeves, "
     "party quiz, dominoes, go board, deck builder, score pads, travel draughts, cooperative game, meeple set, "
     "game mat, hourglass, poker chips, puzzle glue, rule book stand"),
)  # fmt: skip
BUNDLE_KINDS = (
    *("starter kit", "gift box", "weekend set", "essentials", "upgrade", "favourites", "travel set", "deluxe box"),
    *("small-flat set", "family set", "shelf", "bargain", "winter box", "summer box", "everything"),
)


def shop_names(item_theme: NDArray[np.int64], bundle_theme: NDArray[np.int64]) -> tuple[Names, Names]:
    """Unique names for the items and the bundles, by their themes. A name that is used again gets a number."""
    items = [[item.strip() for item in text.split(",")] for _, text in THEMES]
    bundles = [[f"{title} {kind}" for kind in BUNDLE_KINDS] for title, _ in THEMES]
    return _assign_names(item_theme, items), _assign_names(bundle_theme, bundles)


def _assign_names(themes: NDArray[np.int64], names: list[list[str]]) -> Names:
    used = [0] * len(names)
    assigned = []
    for theme in (themes % len(names)).tolist():
        repeats, position = divmod(used[theme], len(names[theme]))
        assigned.append(names[theme][position] + (f" no. {repeats + 1}" if repeats else ""))
        used[theme] += 1
    return tuple(assigned)
