-- An editor's undo tree: nested tables, strings put together, closures, all given back to the garbage collector.
-- lua5.4 trees.lua ROUNDS LINES
local rounds, count = tonumber(arg[1]), tonumber(arg[2])
local state = 12345

local function dice(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % n
end

local function word()
  local letters = {}
  for i = 1, 3 + dice(6) do letters[i] = string.char(97 + dice(26)) end
  return table.concat(letters)
end

local function make_lines(n)
  local lines = {}
  for i = 1, n do
    local words = {}
    for j = 1, 2 + dice(6) do words[j] = word() end
    lines[i] = { text = table.concat(words, " "), words = words, marks = {} }
  end
  return lines
end

local function edit(lines, history)
  for i = 1, #lines do
    local at = 1 + dice(#lines)
    local line, old = lines[at], lines[at].text
    line.text = old:gsub("%a+", string.upper, 1):sub(1, 60) .. tostring(i % 10)
    line.marks[#line.marks + 1] = { at = i, kind = i % 3 }
    history[#history + 1] = function() line.text = old end
  end
end

local function undo(history, keep)
  while #history > keep do table.remove(history)() end
end

local checksum = 0
local history = {}
for _ = 1, rounds do
  local lines = make_lines(count)
  edit(lines, history)
  undo(history, count // 2)
  table.sort(lines, function(a, b) return a.text < b.text end)
  for _, line in ipairs(lines) do
    checksum = (checksum * 31 + #line.text * 7 + line.text:byte(1) + #line.marks) % 4294967296
  end
end
print(rounds, count, checksum)
