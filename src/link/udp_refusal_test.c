/* SPDX-License-Identifier: BSD-2-Clause */
/* What happens to datagrams that the kernel refuses. */
#include <errno.h>

#include "base/log.h"
#include "link/udp_test.h"

static void set_lo_mtu(int mtu)
{
	struct ifreq request = { .ifr_mtu = mtu };

	assert_int_equal(lo_ioctl(SIOCSIFMTU, &request), 0);
}

static void what_is_too_big_is_counted_and_passed_over(void **state)
{
	struct datagram out[3] = { make(false, 4000, 0), make(false, 4000, 2000),
				   make(false, 100, 0) }, in;
	unsigned i, sent;

	set_lo_mtu(1500);
	for (i = 0; i < 3; i++)
		link_->ops->prepare(link_, &out[i]);
	assert_int_equal(link_->ops->send(link_, out, 3, &sent), 0);
	assert_int_equal(sent, 3);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 3);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.bytes, 100);
	/* That was no fault of GSO. */
	assert_int_equal(link_->ops->prepare(link_, &out[0]), LINK_SEGMENTS_MAX);
}

static void a_source_that_is_not_ours_is_counted_and_passed_over(void **state)
{
	struct datagram out[2] = { make(false, 100, 0), make(false, 200, 0) }, in;
	unsigned sent;

	out[0].source[12] = 8;
	link_->ops->prepare(link_, &out[0]);
	link_->ops->prepare(link_, &out[1]);
	assert_int_equal(link_->ops->send(link_, out, 2, &sent), 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.bytes, 200);
}

static void a_firewall_that_drops_is_a_loss(void **state)
{
	struct datagram out = make(false, 3000, 1000);

	fail_set(FAIL_SENDMSG, 1, EPERM);
	send_one(&out);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 3);
	assert_true(nothing_more(link_));
}

static void a_full_buffer_is_said(void **state)
{
	struct datagram out[2] = { make(false, 100, 0), make(true, 100, 0) };
	unsigned sent = 9;

	link_->ops->prepare(link_, &out[0]);
	link_->ops->prepare(link_, &out[1]);
	fail_set(FAIL_SENDMSG, 2, ENOBUFS);
	assert_int_equal(link_->ops->send(link_, out, 2, &sent), EAGAIN);
	assert_int_equal(sent, 1);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
}

static void a_run_refused_by_the_kernel_goes_back_to_the_caller(void **state)
{
	struct datagram out[3] = { make(false, 100, 0), make(false, 5 * SEGMENT, SEGMENT),
				   make(false, 200, 0) }, in;
	unsigned i, sent;

	for (i = 0; i < 3; i++)
		link_->ops->prepare(link_, &out[i]);
	assert_int_equal(link_->ops->send(link_, out, 1, &sent), 0);
	fail_set(FAIL_SENDMSG, 1, EIO);
	assert_int_equal(link_->ops->send(link_, out + 1, 2, &sent), EOPNOTSUPP);
	assert_int_equal(sent, 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
	assert_true(receive_one(link_, &in));
	assert_int_equal(in.bytes, 100);
	assert_true(nothing_more(link_));
	assert_int_equal(link_->ops->prepare(link_, &out[1]), 1);
	out[1].destination[15] = 2;	/* elsewhere it may work */
	assert_int_equal(link_->ops->prepare(link_, &out[1]), LINK_SEGMENTS_MAX);
}

/* What prepare() said is kept by who asked, as long as this stands still. */
static void each_change_of_what_is_prepared_moves_the_epoch(void **state)
{
	struct datagram out = make(false, 5 * SEGMENT, SEGMENT), of_slot = out, other = out;
	uint32_t before = atomic_load(&link_->epoch);
	struct counters counted = { 0 };
	struct link *second;
	unsigned sent;

	assert_true(before);
	send_one(&out);
	assert_int_not_equal(atomic_load(&link_->epoch), before);	/* a socket was opened */
	before = atomic_load(&link_->epoch);
	send_one(&out);
	assert_int_equal(atomic_load(&link_->epoch), before);
	other.spread++;
	link_->ops->prepare(link_, &other);
	assert_int_not_equal(atomic_load(&link_->epoch), before);
	before = atomic_load(&link_->epoch);
	assert_int_equal(udp_open_slot(link_, 0, 77), 0);
	assert_int_not_equal(atomic_load(&link_->epoch), before);
	of_slot.from_slot = 77;
	link_->ops->prepare(link_, &of_slot);
	assert_false(of_slot.plain);		/* the socket has no hop limit yet */
	before = atomic_load(&link_->epoch);
	assert_int_equal(link_->ops->send(link_, &of_slot, 1, &sent), 0);
	assert_int_not_equal(atomic_load(&link_->epoch), before);
	link_->ops->prepare(link_, &of_slot);
	assert_true(of_slot.plain);
	before = atomic_load(&link_->epoch);
	udp_close_slot(link_, 0);
	assert_int_not_equal(atomic_load(&link_->epoch), before);
	before = atomic_load(&link_->epoch);
	fail_set(FAIL_SENDMSG, 1, EIO);
	assert_int_equal(link_->ops->send(link_, &out, 1, &sent), EOPNOTSUPP);
	assert_int_not_equal(atomic_load(&link_->epoch), before);
	before = atomic_load(&link_->epoch);
	assert_int_equal(udp_open(&second, &counted), 0);
	assert_int_not_equal(atomic_load(&second->epoch), before);
	assert_int_equal(atomic_load(&link_->epoch), before);
	second->ops->close(second);
}

static void without_gso_packets_go_one_by_one(void **state)
{
	struct counters other = { 0 };
	struct datagram out = make(false, 100, 0);
	struct link *link;

	fail_set(FAIL_GSO, 1, ENOPROTOOPT);
	assert_int_equal(udp_open(&link, &other), 0);
	assert_int_equal(link->ops->prepare(link, &out), 1);
	link->ops->close(link);
}

static unsigned sockets_explained;

static void hear_explanation(const struct explained *explained)
{
	static const char text[] = "cannot open a socket to send from: Too many open files; ulimit -n";

	sockets_explained += memmem(explained->line, explained->bytes, text, sizeof(text) - 1) != NULL;
}

static void no_socket_to_send_from_is_a_loss_and_is_explained(void **state)
{
	struct datagram out = make(false, 100, 0);
	unsigned sent;

	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(link_->ops->prepare(link_, &out), 1);
	fail_set(FAIL_SOCKET, 1, EMFILE);
	log_listen(hear_explanation);
	assert_int_equal(link_->ops->send(link_, &out, 1, &sent), 0);
	log_listen(NULL);
	assert_int_equal(sockets_explained, 1);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_too_big_is_counted_and_passed_over),
		TEST(a_source_that_is_not_ours_is_counted_and_passed_over),
		TEST(a_firewall_that_drops_is_a_loss),
		TEST(a_full_buffer_is_said),
		TEST(a_run_refused_by_the_kernel_goes_back_to_the_caller),
		TEST(each_change_of_what_is_prepared_moves_the_epoch),
		TEST(without_gso_packets_go_one_by_one),
		TEST(no_socket_to_send_from_is_a_loss_and_is_explained),
	};
	bool real_root;

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
