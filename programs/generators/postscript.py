# SPDX-License-Identifier: Apache-2.0
"""pages.ps: a report of many pages with text, curves, clipped gradients and an image; no page resembles another."""

from dice import Dice, Vocabulary, parameters

_PROLOGUE = """%!PS-Adobe-3.0
%%Pages: {pages}
%%EndComments
/line {{ moveto show }} bind def
/fan {{ % x y spokes reach
  /reach exch def /spokes exch def gsave translate
  0 1 spokes 1 sub {{ 360 mul spokes div gsave rotate 0 0 moveto reach 0 lineto stroke grestore }} for
  grestore
}} bind def
/bar {{ % x y width height hue
  0.6 0.9 sethsbcolor rectfill
}} bind def
/words {{ % [strings] -> dictionary of how often each occurs
  10 dict begin /counts 50 dict def
  {{ cvn dup counts exch known {{ dup counts exch get 1 add }} {{ 1 }} ifelse counts 3 1 roll put }} forall
  counts end
}} bind def
"""


def page(number: int, dice: Dice, vocabulary: Vocabulary) -> str:
    lines = [f"%%Page: {number} {number}", "save"]
    font = dice.choice(("Times-Roman", "Helvetica", "Courier", "Times-Italic", "Helvetica-Bold"))
    size = dice.between(8, 12)
    lines.append(f"/{font} findfont {size} scalefont setfont 0 setgray")
    for row in range(dice.between(25, 40)):
        lines.append(f"({vocabulary.text(10)[:100]}) 50 {740 - row * (size + 2)} line")
    lines.append("[" + " ".join(f"({vocabulary.word()})" for _ in range(60)) + "] words length pop")
    for column in range(dice.between(10, 30)):
        lines.append(f"{50 + column * 9} 60 7 {dice.between(5, 120)} {dice.random():.3f} bar")
    lines.append(f"0.3 setlinewidth {dice.between(380, 480)} 150 {dice.between(20, 90)} {dice.between(40, 90)} fan")
    lines.append("gsave newpath 330 250 moveto")
    for _ in range(dice.between(20, 60)):
        lines.append(" ".join(str(dice.between(lo, hi)) for lo, hi in ((320, 560), (220, 400)) * 3) + " curveto")
    lines.append("closepath eoclip << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [320 220 560 400]")
    first, second = (" ".join(f"{dice.random():.2f}" for _ in range(3)) for _ in range(2))
    lines.append(f"/Function << /FunctionType 2 /Domain [0 1] /C0 [{first}] /C1 [{second}] /N 1 >> >> shfill grestore")
    side = 32
    pixels = "".join(f"{dice.below(256):02x}" for _ in range(side * side))
    lines.append(f"gsave 480 660 translate 80 80 scale {side} {side} 8 [{side} 0 0 -{side} 0 {side}] "
                 f"{{<{pixels}>}} image grestore")
    lines.append("restore showpage")
    return "\n".join(lines) + "\n"


def main() -> None:
    wanted = parameters(__doc__, seed=1, pages=80)
    dice = Dice(wanted.seed)
    vocabulary = Vocabulary(dice, 3000)
    with open("pages.ps", "w", encoding="ascii", newline="\n") as file:
        file.write(_PROLOGUE.format(pages=wanted.pages))
        for number in range(1, wanted.pages + 1):
            file.write(page(number, dice, vocabulary))
        file.write("%%EOF\n")


if __name__ == "__main__":
    main()
