// SPDX-License-Identifier: Apache-2.0
// Work for a C++ compiler: compile-time lists and sorting, expression templates, variants, a parser run by constexpr.
// WIDTH (a whole number up to a few hundred) says how many distinct instantiations each part asks for.
// With LIBRARY defined the standard library's containers and variants are instantiated as well.
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#ifdef LIBRARY
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
#endif

#ifndef WIDTH
#define WIDTH 8
#endif

namespace lists {

template <int... Numbers>
struct List {};

template <int First, typename>
struct Prepend;
template <int First, int... Rest>
struct Prepend<First, List<Rest...>> {
  using type = List<First, Rest...>;
};

template <int Value, typename>
struct Insert;
template <int Value>
struct Insert<Value, List<>> {
  using type = List<Value>;
};
template <int Value, int First, int... Rest>
struct Insert<Value, List<First, Rest...>> {
  using type = typename std::conditional_t<(Value <= First), std::type_identity<List<Value, First, Rest...>>,
                                           Prepend<First, typename Insert<Value, List<Rest...>>::type>>::type;
};

template <typename>
struct Sort;
template <>
struct Sort<List<>> {
  using type = List<>;
};
template <int First, int... Rest>
struct Sort<List<First, Rest...>> {
  using type = typename Insert<First, typename Sort<List<Rest...>>::type>::type;
};

template <int... Index>
constexpr auto scrambled(std::integer_sequence<int, Index...>) {
  return List<(Index * 37 + 11) % 101 ...>{};
}

template <int... Numbers>
int weigh(List<Numbers...>) {
  int total = 0, place = 0;
  ((total += Numbers * ++place), ...);
  return total;
}

int total() { return weigh(typename Sort<decltype(scrambled(std::make_integer_sequence<int, WIDTH>{}))>::type{}); }

}  // namespace lists

namespace expressions {

template <typename Left, typename Right, typename Operation>
struct Node {
  Left left;
  Right right;
  double operator[](std::size_t i) const { return Operation{}(left[i], right[i]); }
};

template <int Tag>
struct Column {
  std::array<double, 4> values;
  double operator[](std::size_t i) const { return values[i] + Tag; }
};

template <typename T>
inline constexpr bool is_expression = false;
template <typename L, typename R, typename O>
inline constexpr bool is_expression<Node<L, R, O>> = true;
template <int Tag>
inline constexpr bool is_expression<Column<Tag>> = true;

template <typename T>
concept Expression = is_expression<std::remove_cvref_t<T>>;

struct Sum {
  double operator()(double a, double b) const { return a + b; }
};
struct Product {
  double operator()(double a, double b) const { return a * b; }
};

template <Expression L, Expression R>
auto operator+(const L& left, const R& right) {
  return Node<L, R, Sum>{left, right};
}
template <Expression L, Expression R>
auto operator*(const L& left, const R& right) {
  return Node<L, R, Product>{left, right};
}

template <int Depth>
auto polynomial(const std::array<double, 4>& values) {
  if constexpr (Depth == 0) {
    return Column<0>{values};
  } else {
    return polynomial<Depth - 1>(values) * Column<Depth>{values} + Column<-Depth>{values};
  }
}

template <int... Depth>
double evaluate(std::integer_sequence<int, Depth...>, const std::array<double, 4>& values) {
  return (polynomial<Depth % 12>(values)[0] + ...);
}

double total(const std::array<double, 4>& values) { return evaluate(std::make_integer_sequence<int, WIDTH>{}, values); }

}  // namespace expressions

namespace parsing {

struct Parser {
  const char* rest;
  constexpr bool take(char letter) {
    const bool found = *rest == letter;
    if (found) ++rest;
    return found;
  }
  constexpr int number() {
    int value = 0;
    for (; *rest >= '0' && *rest <= '9'; ++rest) value = value * 10 + (*rest - '0');
    return value;
  }
  constexpr int factor() {
    if (!take('(')) return number();
    const int value = sum();
    take(')');
    return value;
  }
  constexpr int product() {
    int value = factor();
    while (take('*')) value = value * factor() % 10007;
    return value;
  }
  constexpr int sum() {
    int value = product();
    while (take('+')) value = (value + product()) % 10007;
    return value;
  }
};

template <int Tag>
constexpr int result = Parser{"(1+2*(3+4*5)*6+7)*(8+9*(10+11)*12)+13*14*(15+16*(17+18)*19)"}.sum() * (Tag + 1) % 10007;

template <int... Tag>
int sum_of(std::integer_sequence<int, Tag...>) {
  return (std::integral_constant<int, result<Tag>>::value + ...);
}

int total() { return sum_of(std::make_integer_sequence<int, WIDTH>{}); }

}  // namespace parsing

#ifdef LIBRARY

namespace containers {

template <int Tag>
struct Key {
  std::string text;
  auto operator<=>(const Key&) const = default;
};

template <int Tag>
std::size_t exercise(std::string_view text) {
  std::map<Key<Tag>, std::vector<std::unique_ptr<std::pair<int, Key<Tag>>>>> shelves;
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    Key<Tag> key{std::string(text.substr(i, 3))};
    auto item = std::make_unique<std::pair<int, Key<Tag>>>(static_cast<int>(i), std::move(key));
    shelves[item->second].push_back(std::move(item));
  }
  std::unordered_map<std::string, std::function<std::size_t(std::size_t)>> rules;
  for (const auto& [key, items] : shelves) {
    rules[key.text] = [size = items.size()](std::size_t n) { return n * size + Tag; };
  }
  std::vector<std::tuple<std::size_t, std::string>> order;
  for (const auto& [word, rule] : rules) order.emplace_back(rule(word.size()), word);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return std::get<0>(a) < std::get<0>(b); });
  const auto add = [](std::size_t sum, const auto& row) { return sum + std::get<0>(row); };
  return std::accumulate(order.begin(), order.end(), std::size_t{}, add);
}

template <int... Tag>
std::size_t exercise_all(std::integer_sequence<int, Tag...>, std::string_view text) {
  return (exercise<Tag>(text) + ...);
}

std::size_t total(std::string_view text) { return exercise_all(std::make_integer_sequence<int, WIDTH / 8>{}, text); }

}  // namespace containers

namespace variants {

template <int Tag>
struct Shape {
  std::array<double, Tag % 5 + 1> sides;
};

template <typename>
struct AnyShape;
template <int... Tag>
struct AnyShape<std::integer_sequence<int, Tag...>> {
  using type = std::variant<Shape<Tag>...>;
};
using Any = AnyShape<std::make_integer_sequence<int, (WIDTH < 16 ? WIDTH : 16)>>::type;

double total(const std::vector<Any>& shapes) {
  double sum = 0;
  for (const Any& a : shapes) {
    for (const Any& b : shapes) {
      sum += std::visit([](const auto& x, const auto& y) { return x.sides[0] * y.sides.back(); }, a, b);
    }
  }
  return sum;
}

}  // namespace variants

#endif
