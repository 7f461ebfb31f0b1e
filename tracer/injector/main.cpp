// SPDX-License-Identifier: Apache-2.0
// injector --pid N --library PATH --entry NAME --argument TEXT: has a running process load a library and call
// int NAME(const char* TEXT) of it, and tells how that went as lines of a name, a space and a value.
//
// Exit status: 0 if it was called, 1 if not, 2 if the arguments are wrong.
#include <getopt.h>

#include <cstdio>
#include <cstdlib>

#include "tracer/injector/looking.hpp"

namespace {

using namespace heapyard::injector;

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::kCalled:
      return "called";
    case Ending::kNotLoaded:
      return "not-loaded";
    case Ending::kRefused:
      return "refused";
    case Ending::kBusy:
      return "busy";
    case Ending::kNotPermitted:
      return "not-permitted";
    case Ending::kFailed:
      return "failed";
    case Ending::kGone:
      return "gone";
  }
  return "?";
}

bool parse(int count, char** words, Request& request) {
  const option options[] = {{"pid", required_argument, nullptr, 'p'},
                            {"library", required_argument, nullptr, 'l'},
                            {"entry", required_argument, nullptr, 'e'},
                            {"argument", required_argument, nullptr, 'a'},
                            {}};
  for (int option; (option = getopt_long(count, words, "", options, nullptr)) != -1;) {
    if (option == 'p')
      request.pid = std::atoi(optarg);
    else if (option == 'l')
      request.library = optarg;
    else if (option == 'e')
      request.entry = optarg;
    else if (option == 'a')
      request.argument = optarg;
    else
      return false;
  }
  return optind == count && request.pid > 0 && !request.library.empty() && !request.entry.empty();
}

}  // namespace

int main(int count, char** words) {
  Request request;
  if (!parse(count, words, request)) {
    std::fprintf(stderr, "usage: injector --pid N --library PATH --entry NAME --argument TEXT\n");
    return 2;
  }
  Answer answer = inject(request);
  for (char& letter : answer.text)
    if (letter == '\n') letter = ' ';
  std::printf("ending %s\nresult %ld\nthread %d\nlooks %u\nstopped-ns %lld\nlongest-look-ns %lld\nmended %d\ntext %s\n",
              name_of(answer.ending), answer.result, answer.thread, answer.looks,
              static_cast<long long>(answer.stopped), static_cast<long long>(answer.longest_look), answer.mended,
              answer.text.c_str());
  return answer.ending == Ending::kCalled ? 0 : 1;
}
