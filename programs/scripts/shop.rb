# A web shop's back end in small: objects, hashes by symbol, strings put together and taken apart, templates filled in.
#   ruby shop.rb ROUNDS ORDERS
Order = Struct.new(:id, :customer, :items, :note)
Item = Struct.new(:name, :cents, :tags)

class Dice
  def initialize(seed) = @state = seed

  def below(limit)
    @state = (@state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    (@state >> 33) % limit
  end
end

WORDS = %w[amber birch copper delta ember fjord grain harbor ivory jasper kernel lumen marble nickel onyx pebble].freeze

def make_orders(dice, count)
  Array.new(count) do |id|
    items = Array.new(1 + dice.below(5)) do
      name = Array.new(2 + dice.below(3)) { WORDS[dice.below(WORDS.size)] }.join('-')
      Item.new(name, 50 + dice.below(9950), WORDS.rotate(dice.below(16)).first(dice.below(4)).map(&:to_sym))
    end
    Order.new(id, "customer #{dice.below(count / 4 + 1)}", items, 'please ' * dice.below(6))
  end
end

def render(order)
  rows = order.items.map do |item|
    format('<tr><td>%s</td><td>%d.%02d</td></tr>', item.name.capitalize, *item.cents.divmod(100))
  end
  "<h2>#{order.customer}</h2><table>#{rows.join("\n")}</table><p>#{order.note.strip.gsub('please', 'PLEASE')}</p>"
end

rounds, count = ARGV.map(&:to_i)
dice, kept, checksum = Dice.new(42), [], 0
rounds.times do
  orders = make_orders(dice, count)
  by_customer = orders.group_by(&:customer)
  totals = by_customer.transform_values { |list| list.sum { |order| order.items.sum(&:cents) } }
  tags = orders.flat_map { |order| order.items.flat_map(&:tags) }.tally
  pages = orders.map { |order| render(order) }
  words = pages.join("\n").scan(/[A-Za-z]+/).map(&:downcase).tally
  kept << [pages.each_slice(3).map(&:first), by_customer]
  kept.shift if kept.size > 2
  letters = words.sum { |word, times| word.size * times }
  sums = [totals.values.sum, totals.size, tags.values.max, words.size, letters, pages.sum(&:bytesize)]
  checksum = sums.reduce(checksum) { |sum, number| (sum * 31 + number) % 4_294_967_291 }
end
puts "#{rounds} rounds, checksum #{checksum}"
