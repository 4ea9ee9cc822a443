// SPDX-License-Identifier: BSD-2-Clause
// Collectives of gloo over its ibverbs transport, each result checked: gloo_allreduce RANK SIZE DIRECTORY
// DEVICE GID_INDEX. The ranks meet in DIRECTORY, which is empty when the first one starts.
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

using Context = std::shared_ptr<gloo::Context>;

static void expect(bool right, const char *what, int count)
{
	if (right)
		return;
	std::fprintf(stderr, "%s of %d numbers is wrong\n", what, count);
	std::exit(1);
}

static int64_t given(int rank, int i)
{
	return int64_t(rank + 1) * (i + 7);
}

// An algorithm's buffers must not go before the completions of what they sent, which nothing awaits: all of
// them stay until the process ends.
template <class Algorithm> static void allreduce(const Context &context, const char *what, int count)
{
	auto &data = *new std::vector<int64_t>(count);
	const int64_t ranks = context->size;
	auto &algorithm = *new Algorithm(context, {data.data()}, count);

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < count; i++)
			data[i] = given(context->rank, i);
		algorithm.run();
		for (int i = 0; i < count; i++)
			expect(data[i] == ranks * (ranks + 1) / 2 * (i + 7), what, count);
	}
}

static void broadcast(const Context &context, int count)
{
	auto &data = *new std::vector<int64_t>(count);
	auto &algorithm = *new gloo::BroadcastOneToAll<int64_t>(context, {data.data()}, count, context->size - 1);

	for (int i = 0; i < count; i++)
		data[i] = given(context->rank, i);
	algorithm.run();
	for (int i = 0; i < count; i++)
		expect(data[i] == given(context->size - 1, i), "a broadcast", count);
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		std::fprintf(stderr, "usage: %s RANK SIZE DIRECTORY DEVICE GID_INDEX\n", argv[0]);
		return 2;
	}
	gloo::transport::ibverbs::attr attr = { argv[4], 1, std::atoi(argv[5]) };
	auto device = gloo::transport::ibverbs::CreateDevice(attr);
	gloo::rendezvous::FileStore store(argv[3]);
	auto context = std::make_shared<gloo::rendezvous::Context>(std::atoi(argv[1]), std::atoi(argv[2]));

	context->connectFullMesh(store, device);
	for (int count : { 1, 100, 4096, 250000 }) {
		allreduce<gloo::AllreduceRingChunked<int64_t>>(context, "an allreduce (ring)", count);
		allreduce<gloo::AllreduceHalvingDoubling<int64_t>>(context, "an allreduce (halving)", count);
		broadcast(context, count);
	}
	(new gloo::BarrierAllToAll(context))->run();
	std::printf("rank %d: right\n", context->rank);
	std::fflush(stdout);
	std::quick_exit(0);
}
