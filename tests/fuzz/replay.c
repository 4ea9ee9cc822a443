/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a fuzz target without libFuzzer, the same way each time: on every packet of the captures
 * given as arguments, cut short at every length up to 64 bytes, and with random bytes changed.
 * So every build, of any compiler and sanitizer, has a small fuzzer among its tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/test_random.h"
#include "capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* Under sanitizers each input takes ten times as long: make check has a quarter of them there. */
#define EACH	1u
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef EACH
#define EACH	(getenv("TEST_LONG") ? 1u : 4u)
#endif
#endif

static unsigned long inputs;

/* A copy of exactly @length bytes: reading one more is seen by ASan and valgrind. */
static void try_input(const uint8_t *data, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);

	if (!copy)
		abort();
	memcpy(copy, data, length);
	LLVMFuzzerTestOneInput(copy, length);
	free(copy);
	inputs++;
}

static void try_changed(uint64_t *random, const struct captured *packet)
{
	uint8_t *changed = malloc(packet->length);

	if (!changed)
		abort();
	for (unsigned round = 0; round < 20 / EACH; round++) {
		memcpy(changed, packet->data, packet->length);
		for (unsigned i = 0; i <= round % 4; i++) {
			size_t within = round % 2 || packet->length < 44 ? packet->length : 44;

			changed[test_random(random) % within] = (uint8_t)test_random(random);
		}
		try_input(changed, packet->length);
	}
	free(changed);
}

static int replay(const char *path)
{
	struct capture capture;
	struct captured packet;
	uint64_t random = 15;
	int err = capture_open(&capture, path), more;

	if (err) {
		fprintf(stderr, "%s: %s\n", path, strerror(err));
		return 1;
	}
	while ((more = capture_next(&capture, &packet)) > 0) {
		for (size_t length = 0; length < 64 && length < packet.length; length += EACH)
			try_input(packet.data, length);
		try_input(packet.data, packet.length);
		if (packet.length)
			try_changed(&random, &packet);
	}
	capture_close(&capture);
	return more < 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= replay(argv[i]);
	printf("%lu inputs\n", inputs);
	return failed || !inputs;
}
