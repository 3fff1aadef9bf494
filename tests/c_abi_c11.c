/* rondo/rondo_c.h as a program in C11 sees it: it compiles, its structs are what they are for others, and a region is
 * called from C alone. tests/c_abi.cpp is the program. */
#include "rondo/rondo_c.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(rondo_argument) == 32, "an argument has 32 bytes");
_Static_assert(offsetof(rondo_argument, bytes) == 8, "bytes");
_Static_assert(offsetof(rondo_argument, kind) == 16, "kind");
_Static_assert(offsetof(rondo_argument, element) == 20, "element");
_Static_assert(sizeof(rondo_span) == 16, "a span has 16 bytes");
_Static_assert(RONDO_C_VERSION == 1, "a change of what is below is a new version");

struct state {
  int runs, captures, released;
  uint64_t seen;
  const char* fail;
};

static int run(void* object, void* stream, rondo_argument* arguments, int prove) {
  struct state* const s = object;
  (void)stream, (void)prove;
  ++s->runs;
  s->seen = arguments[0].value;
  if (!s->fail) return 0;
  if (*s->fail) rondo_fail(s->fail);
  return 1;
}
static int capture(void* object, rondo_argument* arguments, rondo_captured* out) {
  struct state* const s = object;
  (void)arguments;
  ++s->captures;
  out->owner = s; /* and no graph */
  return 0;
}
static int make(void* object, rondo_argument* arguments) {
  (void)object, (void)arguments;
  return 0;
}
static void release(void* owner) { ++((struct state*)owner)->released; }

/* Writes a line for each step into `out`. `address`: of 16 bytes on the GPU. */
int c_abi_steps(char* out, size_t room, uint64_t address);
int c_abi_steps(char* out, size_t room, uint64_t address) {
  size_t at = 0;
#define SAY(...) at += (size_t)snprintf(out + at, at < room ? room - at : 0, __VA_ARGS__)
  struct state s;
  memset(&s, 0, sizeof s);
  rondo_work work = {&s, run, capture, make, NULL, release};
  rondo_argument a[2] = {{address, 16, RONDO_IN, RONDO_F32, 0}, {0, 16, RONDO_MADE, RONDO_F32, 0}};
  rondo_region *region = NULL, *other = NULL;
  int replayed = 7;

  SAY("%d %d %d\n", rondo_c_version(), rondo_available(), rondo_region_create("c", "{\"policy\": \"always\"}", &region));
  SAY("%d", rondo_region_call(region, NULL, a, 2, &work, &replayed));
  SAY(" %d", replayed);
  SAY(" %d %d\n", s.runs, s.seen == address);
  SAY("%d", rondo_region_call(region, NULL, a, 2, &work, &replayed));
  SAY(" %d", replayed);
  SAY(" %d %d %d\n", s.runs, s.captures, s.released);
  s.fail = "the disk is full";
  SAY("%d", rondo_region_call(region, NULL, a, 2, &work, NULL));
  SAY(" %s\n", rondo_error_text());
  s.fail = "";
  SAY("%d", rondo_region_call(region, NULL, a, 2, &work, NULL));
  SAY(" %s\n", rondo_error_text());
  s.fail = NULL;
  work.make = NULL;
  SAY("%d", rondo_region_call(region, NULL, a, 2, &work, NULL));
  SAY(" %s\n", rondo_error_text());
  SAY("%d", rondo_region_call(NULL, NULL, a, 2, &work, NULL));
  SAY(" %s\n", rondo_error_text());
  SAY("%d", rondo_region_create("c", "{\"policy\": 3}", &other));
  SAY(" %s\n", rondo_error_text());

  char* text = NULL;
  SAY("%d", rondo_report_json(NULL, &text));
  SAY(" %d\n", text && strstr(text, "returned no graph") != NULL);
  rondo_free(text);
  rondo_region_destroy(region);
  rondo_region_destroy(other);
  return 0;
#undef SAY
}
