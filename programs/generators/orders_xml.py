# SPDX-License-Identifier: Apache-2.0
"""orders.xml: customers with their orders, lines and remarks; references between them by identifier."""

from dice import Dice, Vocabulary, parameters


def main() -> None:
    wanted = parameters(__doc__, seed=1, customers=200, orders=3000, articles=400)
    dice = Dice(wanted.seed)
    vocabulary = Vocabulary(dice, 4000)
    with open("orders.xml", "w", encoding="ascii", newline="\n") as file:
        file.write('<?xml version="1.0" encoding="US-ASCII"?>\n<shop>\n <articles>\n')
        for number in range(wanted.articles):
            file.write(f'  <article id="a{number}" group="g{dice.below(25)}" cents="{dice.between(50, 99_999)}">'
                       f"<name>{vocabulary.text(2)}</name><description>{vocabulary.text(12)}</description></article>\n")
        file.write(" </articles>\n <customers>\n")
        for number in range(wanted.customers):
            file.write(f'  <customer id="c{number}"><name>{vocabulary.text(2).title()}</name>'
                       f"<town>{vocabulary.word().title()}</town></customer>\n")
        file.write(" </customers>\n <orders>\n")
        for number in range(wanted.orders):
            date = f"20{dice.between(10, 25)}-{dice.between(1, 12):02}-{dice.between(1, 28):02}"
            file.write(f'  <order id="o{number}" customer="c{dice.below(wanted.customers)}" date="{date}">\n')
            for _ in range(dice.between(1, 8)):
                file.write(f'   <line article="a{dice.below(wanted.articles)}" count="{dice.between(1, 20)}"/>\n')
            if dice.random() < 0.5:
                file.write(f"   <remark>{vocabulary.text(dice.between(5, 30))}</remark>\n")
            file.write("  </order>\n")
        file.write(" </orders>\n</shop>\n")


if __name__ == "__main__":
    main()
