/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of messages is consistent with itself, what is written is read back, and a few bytes
 * stand where the specification draws them (the captures in tests/golden prove the rest).
 */
#include "wire/cm_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/test_random.h"
#include "wire/cm_table.h"

#define DATA_BITS (MAD_DATA_BYTES * 8u)

static void fields_do_not_overlap_and_end_with_the_private_data(void **unused)
{
	for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++) {
		const struct cm_layout *layout = cm_layout((enum cm_message_kind)kind);
		unsigned end = 0;

		for (unsigned i = 0; i < layout->fields; i++) {
			const struct wire_field *field = &layout->field[i];

			if (field->bit < end)
				fail_msg("%s: %s", layout->name, field->name);
			end = field->bit + field->width;
			assert_true(field->width > 0);
		}
		assert_int_equal(end, DATA_BITS);
		assert_int_equal(layout->field[layout->fields - 1].width, layout->private_bytes * 8u);
	}
}

static void every_field_fits_its_member_and_no_smaller_one(void **unused)
{
	for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++) {
		const struct cm_layout *layout = cm_layout((enum cm_message_kind)kind);

		for (unsigned i = 0; i < layout->fields; i++) {
			const struct wire_field *field = &layout->field[i];

			if (!field->member_bytes) {
				assert_int_equal(field->width % 8, 0);
				assert_int_equal(field->bit % 8, 0);
				continue;
			}
			assert_true(field->width <= field->member_bytes * 8);
			assert_true(field->member_bytes == 1 ||
				    field->width > field->member_bytes * 4);
		}
	}
}

static void private_data_is_as_long_as_the_specification_says(void **unused)
{
	static const size_t bytes[CM_MESSAGE_KINDS] = {
		[CM_MESSAGE_REQ] = 92, [CM_MESSAGE_MRA] = 222, [CM_MESSAGE_REJ] = 148,
		[CM_MESSAGE_REP] = 196, [CM_MESSAGE_RTU] = 224, [CM_MESSAGE_DREQ] = 220,
		[CM_MESSAGE_DREP] = 224, [CM_MESSAGE_LAP] = 168, [CM_MESSAGE_APR] = 148,
		[CM_MESSAGE_SIDR_REQ] = 216, [CM_MESSAGE_SIDR_REP] = 136,
	};

	for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++) {
		struct cm_message message = { .kind = (enum cm_message_kind)kind };
		size_t room;

		assert_int_equal(cm_private_data_bytes(message.kind), bytes[kind]);
		assert_non_null(cm_message_private_data(&message, &room));
		assert_int_equal(room, bytes[kind]);
	}
}

static void attribute_ids_and_names_are_distinct(void **unused)
{
	for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++)
		for (unsigned other = 0; other < kind; other++) {
			const struct cm_layout *a = cm_layout((enum cm_message_kind)kind);
			const struct cm_layout *b = cm_layout((enum cm_message_kind)other);

			assert_int_not_equal(a->attribute, b->attribute);
			assert_string_not_equal(a->name, b->name);
		}
	assert_string_equal(cm_message_name(CM_MESSAGE_SIDR_REP), "SIDR_REP");
	assert_null(cm_message_name(CM_MESSAGE_KINDS));
}

/* The bits that some field of the message covers, as a mask over the data. */
static void mask_of(const struct cm_layout *layout, uint8_t mask[MAD_DATA_BYTES])
{
	memset(mask, 0, MAD_DATA_BYTES);
	for (unsigned i = 0; i < layout->fields; i++)
		for (unsigned bit = 0; bit < layout->field[i].width; bit++) {
			unsigned at = layout->field[i].bit + bit;

			mask[at / 8] |= (uint8_t)(0x80 >> at % 8);
		}
}

static void random_mad(uint64_t *random, const struct cm_layout *layout, uint8_t mad[MAD_BYTES])
{
	uint8_t mask[MAD_DATA_BYTES];

	test_random_fill(random, mad, MAD_BYTES);
	mad_write(&(struct mad_header){
		.base_version = MAD_BASE_VERSION, .class = MAD_CLASS_CM, .method = MAD_METHOD_SEND,
		.class_version = CM_CLASS_VERSION, .attribute_id = layout->attribute,
		.transaction_id = test_random(random),
		.attribute_modifier = (uint32_t)test_random(random) }, mad);
	mask_of(layout, mask);
	for (unsigned i = 0; i < MAD_DATA_BYTES; i++)
		mad[MAD_HEADER_BYTES + i] &= mask[i];
}

static void whatever_is_parsed_is_written_as_the_same_bytes(void **unused)
{
	uint64_t random = 1;

	for (unsigned round = 0; round < 100 * CM_MESSAGE_KINDS; round++) {
		const struct cm_layout *layout =
			cm_layout((enum cm_message_kind)(round % CM_MESSAGE_KINDS));
		uint8_t mad[MAD_BYTES], again[MAD_BYTES];
		struct cm_message message;

		random_mad(&random, layout, mad);
		memset(again, 0xaa, sizeof(again));
		assert_true(cm_message_parse(mad, &message));
		assert_int_equal(message.kind, round % CM_MESSAGE_KINDS);
		cm_message_write(&message, again);
		assert_memory_equal(mad, again, MAD_BYTES);
	}
}

/* Both are made of the same rows. */
static void messages_are_read_and_written_as_a_walk_over_their_rows_does(void **unused)
{
	uint64_t random = 4;

	for (unsigned round = 0; round < 200 * CM_MESSAGE_KINDS; round++) {
		const struct cm_layout *layout = cm_layout((enum cm_message_kind)(round % CM_MESSAGE_KINDS));
		uint8_t mad[MAD_BYTES], written[MAD_DATA_BYTES] = { 0 }, walked[MAD_DATA_BYTES] = { 0 };
		struct cm_message read = { 0 }, walk = { 0 };

		random_mad(&random, layout, mad);
		layout->read(mad + MAD_HEADER_BYTES, &read);
		for (unsigned i = 0; i < layout->fields; i++)
			field_read(&layout->field[i], mad + MAD_HEADER_BYTES, &walk);
		assert_memory_equal(&read, &walk, sizeof(read));
		memset((uint8_t *)&walk + sizeof(walk.kind), (int)round, sizeof(walk) - sizeof(walk.kind));
		layout->write(&walk, written);
		for (unsigned i = 0; i < layout->fields; i++)
			field_write(&layout->field[i], &walk, walked);
		assert_memory_equal(written, walked, sizeof(written));
	}
}

static void reserved_bits_are_ignored_and_values_cut_to_their_width(void **unused)
{
	struct cm_message message = { .kind = CM_MESSAGE_REQ }, parsed;
	uint8_t mad[MAD_BYTES], ones[MAD_BYTES];

	cm_message_write(&message, mad);
	memcpy(ones, mad, sizeof(ones));
	ones[MAD_HEADER_BYTES + 4] = 0xff;		/* behind the communication ID */
	memset(ones + MAD_HEADER_BYTES + 24, 0xff, 4);	/* behind the GUID */
	ones[MAD_HEADER_BYTES + 90] |= 0x0f;		/* between flow label and rate */
	ones[MAD_HEADER_BYTES + 91] |= 0xc0;
	assert_true(cm_message_parse(ones, &parsed));
	cm_message_write(&parsed, ones);
	assert_memory_equal(mad, ones, MAD_BYTES);

	message.req.retry_count = 0xff;		/* 3 bits beside a timeout of 5 */
	message.req.local_qpn = 0xffffffff;	/* 24 bits beside the responder resources */
	cm_message_write(&message, mad);
	assert_true(cm_message_parse(mad, &parsed));
	assert_int_equal(parsed.req.retry_count, 7);
	assert_int_equal(parsed.req.local_response_timeout, 0);
	assert_int_equal(parsed.req.local_qpn, 0xffffff);
	assert_int_equal(parsed.req.responder_resources, 0);
}

static void fields_stand_where_the_specification_draws_them(void **unused)
{
	struct cm_message message = { .kind = CM_MESSAGE_REQ, .transaction_id = 0x0102030405060708 };
	uint8_t mad[MAD_BYTES], *data = mad + MAD_HEADER_BYTES;

	message.req.local_qpn = 0xabcdef;
	message.req.responder_resources = 0x11;
	message.req.remote_response_timeout = 20;
	message.req.transport_service = 1;
	message.req.flow_control = 1;
	message.req.path_mtu = 3;
	message.req.rnr_retry_count = 6;
	message.req.flow_label = 0xfedcb;
	message.req.packet_rate = 3;
	memset(message.req.private_data, 0x55, sizeof(message.req.private_data));
	cm_message_write(&message, mad);
	assert_int_equal(mad[0], 1);
	assert_int_equal(mad[1], 7);
	assert_int_equal(mad[2], 2);
	assert_int_equal(mad[3], 3);
	assert_int_equal(get_be64(mad + 8), message.transaction_id);
	assert_int_equal(get_be16(mad + 16), 0x10);
	assert_int_equal(get_be32(data + 32), 0xabcdef11);
	assert_int_equal(data[43], 20 << 3 | 1 << 1 | 1);
	assert_int_equal(data[50], 3 << 4 | 6);
	assert_int_equal(get_be32(data + 88), 0xfedcb003);
	assert_int_equal(data[139], 0);
	assert_int_equal(data[140], 0x55);
	assert_int_equal(data[231], 0x55);
}

static void what_is_of_another_class_version_method_or_attribute_is_refused(void **unused)
{
	static const struct { uint8_t at, wrong; } changes[] = {
		{ 0, 2 }, { 1, 3 }, { 2, 1 }, { 3, 0x81 }, { 16, 1 }, { 17, 0x0f }, { 17, 0x1b },
	};
	struct cm_message message = { .kind = CM_MESSAGE_RTU };
	struct cm_target target;
	uint8_t mad[MAD_BYTES];

	for (unsigned i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		cm_message_write(&message, mad);
		mad[changes[i].at] = changes[i].wrong;
		assert_false(cm_message_parse(mad, &message));
		assert_int_equal(cm_message_target(mad, &target), CM_TARGET_NONE);
	}
}

static void a_mad_is_256_bytes_and_of_base_version_1(void **unused)
{
	const struct mad_header header = {
		.base_version = 1, .class = 3, .class_version = 2, .method = 0x81, .status = 0x1c,
		.attribute_id = 0x35, .transaction_id = 0x1122334455667788, .attribute_modifier = 9,
	};
	struct mad_header parsed;
	uint8_t mad[MAD_BYTES + 4];

	memset(mad, 0xee, sizeof(mad));
	mad_write(&header, mad);
	assert_int_equal(mad[MAD_HEADER_BYTES], 0xee);
	assert_true(mad_parse(mad, sizeof(mad), &parsed));
	assert_int_equal(parsed.class, 3);
	assert_int_equal(parsed.class_version, 2);
	assert_int_equal(parsed.method, 0x81);
	assert_int_equal(parsed.status, 0x1c);
	assert_int_equal(parsed.attribute_id, 0x35);
	assert_int_equal(parsed.transaction_id, header.transaction_id);
	assert_int_equal(parsed.attribute_modifier, 9);
	assert_false(mad_parse(mad, MAD_BYTES - 1, &parsed));
	mad[0] = 2;
	assert_false(mad_parse(mad, MAD_BYTES, &parsed));
}

static void transports_are_a_service_type_and_its_extension(void **unused)
{
	struct cm_req req = { 0 };
	struct cm_rep rep = { .local_qpn = 1, .local_eecn = 2 };

	for (unsigned transport = 0; transport < CM_TRANSPORT_NONE; transport++) {
		cm_req_set_transport(&req, (enum cm_transport)transport);
		assert_int_equal(cm_req_transport(&req), transport);
		assert_non_null(cm_transport_name((enum cm_transport)transport));
	}
	req.transport_service = 3;
	req.extended_transport = 2;
	assert_int_equal(cm_req_transport(&req), CM_TRANSPORT_NONE);
	assert_int_equal(cm_rep_qpn(&rep, CM_TRANSPORT_RC), 1);
	assert_int_equal(cm_rep_qpn(&rep, CM_TRANSPORT_XRC), 2);
	cm_rep_set_vendor_id(&rep, 0x123456);
	assert_int_equal(rep.vendor_id_high, 0x12);
	assert_int_equal(cm_rep_vendor_id(&rep), 0x123456);
}

static void put_ip_header(uint8_t *data, unsigned version)
{
	data[0] = 0;
	data[1] = (uint8_t)(version << 4);
	put_be16(data + 2, 7174);
	for (unsigned i = 0; i < 32; i++)
		data[4 + i] = (uint8_t)(i + 1);
}

static void requests_are_for_a_service_and_perhaps_an_address(void **unused)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 29, 30, 31, 32 };
	struct cm_message message = { .kind = CM_MESSAGE_REQ };
	struct cm_ip_addresses addresses;
	struct cm_target target;
	uint8_t mad[MAD_BYTES];

	message.req.service_id = 0x0000000001061c06;
	put_ip_header(message.req.private_data, 4);
	cm_message_write(&message, mad);
	assert_int_equal(cm_message_target(mad, &target), CM_TARGET_SERVICE);
	assert_int_equal(target.service_id, 0x0000000001061c06);
	assert_true(target.has_address);
	assert_memory_equal(target.address, v4, 16);
	assert_true(cm_message_ip(&message, &addresses));
	assert_int_equal(addresses.source_port, 7174);
	assert_int_equal(addresses.source[15], 16);
	assert_int_equal(addresses.source[10], 0xff);

	message = (struct cm_message){ .kind = CM_MESSAGE_SIDR_REQ };
	message.sidr_req.service_id = 0x0000000001110007;
	put_ip_header(message.sidr_req.private_data, 6);
	cm_message_write(&message, mad);
	assert_int_equal(cm_message_target(mad, &target), CM_TARGET_SERVICE);
	assert_true(target.has_address);
	assert_int_equal(target.address[0], 17);
	assert_int_equal(target.address[15], 32);
}

static void without_a_header_of_annex_a11_there_is_no_address(void **unused)
{
	struct cm_message message = { .kind = CM_MESSAGE_REQ };
	struct cm_target target;
	uint8_t mad[MAD_BYTES];

	put_ip_header(message.req.private_data, 4);
	message.req.service_id = 0x1000000000000007;	/* of no IP port space */
	cm_message_write(&message, mad);
	assert_int_equal(cm_message_target(mad, &target), CM_TARGET_SERVICE);
	assert_false(target.has_address);

	message.req.service_id = 0x0000000001060007;
	message.req.private_data[1] = 0x50;		/* an unheard-of version */
	cm_message_write(&message, mad);
	assert_int_equal(cm_message_target(mad, &target), CM_TARGET_SERVICE);
	assert_false(target.has_address);
	message.req.private_data[1] = 0x40;
	message.req.private_data[0] = 1;
	cm_message_write(&message, mad);
	cm_message_target(mad, &target);
	assert_false(target.has_address);
}

static void answers_are_for_who_chose_the_communication_id(void **unused)
{
	for (unsigned kind = 0; kind < CM_MESSAGE_KINDS; kind++) {
		struct cm_message message = { .kind = (enum cm_message_kind)kind };
		struct cm_target target;
		uint8_t mad[MAD_BYTES];

		if (kind == CM_MESSAGE_REQ || kind == CM_MESSAGE_SIDR_REQ)
			continue;
		message.rtu.local_comm_id = kind == CM_MESSAGE_SIDR_REP ? 22 : 11;
		if (kind != CM_MESSAGE_SIDR_REP)
			message.rtu.remote_comm_id = 22;
		cm_message_write(&message, mad);
		assert_int_equal(cm_message_target(mad, &target), CM_TARGET_ID);
		assert_int_equal(target.comm_id, 22);
		assert_int_equal(target.sender_id, kind == CM_MESSAGE_SIDR_REP ? 0 : 11);
		assert_int_equal(cm_message_sender_id(&message),
				 kind == CM_MESSAGE_SIDR_REP ? 0 : 11);
	}
}

static void a_reject_that_cannot_know_its_target_says_so(void **unused)
{
	struct cm_message message = { .kind = CM_MESSAGE_REJ };
	struct cm_target target;
	uint8_t mad[MAD_BYTES];

	message.rej.local_comm_id = 5;
	message.rej.reason = CM_REJECT_TIMEOUT;
	cm_message_write(&message, mad);
	assert_int_equal(cm_message_target(mad, &target), CM_TARGET_UNKNOWN);
}

static void reasons_and_statuses_have_names_and_sentences(void **unused)
{
	unsigned reasons = 0;

	for (unsigned reason = 0; reason < 0x10000; reason++) {
		const char *name = cm_reject_name((uint16_t)reason);

		assert_true(!name == !cm_reject_text((uint16_t)reason));
		reasons += name != NULL;
	}
	assert_int_equal(reasons, 34);
	assert_string_equal(cm_reject_name(28), "CONSUMER_DEFINED");
	assert_null(cm_reject_name(0));
	assert_null(cm_reject_name(34));
	assert_string_equal(cm_sidr_name(CM_SIDR_UNSUPPORTED), "UNSUPPORTED");
	assert_non_null(cm_sidr_text(2));
	assert_null(cm_sidr_name(6));
	assert_string_equal(cm_apr_name(CM_APR_UNSUPPORTED), "UNSUPPORTED");
	assert_non_null(cm_apr_text(13));
	assert_null(cm_apr_text(14));
	assert_null(cm_apr_text(255));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_do_not_overlap_and_end_with_the_private_data),
		cmocka_unit_test(every_field_fits_its_member_and_no_smaller_one),
		cmocka_unit_test(private_data_is_as_long_as_the_specification_says),
		cmocka_unit_test(attribute_ids_and_names_are_distinct),
		cmocka_unit_test(whatever_is_parsed_is_written_as_the_same_bytes),
		cmocka_unit_test(messages_are_read_and_written_as_a_walk_over_their_rows_does),
		cmocka_unit_test(reserved_bits_are_ignored_and_values_cut_to_their_width),
		cmocka_unit_test(fields_stand_where_the_specification_draws_them),
		cmocka_unit_test(what_is_of_another_class_version_method_or_attribute_is_refused),
		cmocka_unit_test(a_mad_is_256_bytes_and_of_base_version_1),
		cmocka_unit_test(transports_are_a_service_type_and_its_extension),
		cmocka_unit_test(requests_are_for_a_service_and_perhaps_an_address),
		cmocka_unit_test(without_a_header_of_annex_a11_there_is_no_address),
		cmocka_unit_test(answers_are_for_who_chose_the_communication_id),
		cmocka_unit_test(a_reject_that_cannot_know_its_target_says_so),
		cmocka_unit_test(reasons_and_statuses_have_names_and_sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
