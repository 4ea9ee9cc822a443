// SPDX-License-Identifier: BSD-2-Clause
// What the page was made with: packets as columns, events, tables. Items are packets and then events, by number:
// item i is packet i, or event i - PACKETS. All texts of the trace are data: they go into the page as text.
'use strict';

const DATA = JSON.parse(document.getElementById('data').textContent);
document.getElementById('data').textContent = '';
const P = DATA.pack ? unpackColumns(DATA.pack.packet, DATA.pack.packets) : DATA.packet;
const E = DATA.pack ? unpackColumns(DATA.pack.event, DATA.pack.events) : Object.fromEntries([['time', 0], ['lane', 1], ['latency', 3],
	['kind', 4], ['failed', 5]].map(([name, at]) => [name, DATA.event.map(event => event[at])]));
const PACKETS = DATA.pack ? DATA.pack.packets : P.sent.length;
const EVENTS = DATA.pack ? DATA.pack.events : DATA.event.length;
const ITEMS = PACKETS + EVENTS;

const FLAG = { LOST: 1, DROPPED: 2, AGAIN: 4, DIRECT: 8, RING: 16, DUPLICATE: 32, GUESSED: 64, INSTANT: 128, MESSAGE: 256, PLANTED: 512, LATE: 1024, FRAGMENT: 2048 };
const FORM = { ROCE_V2: 0, ROCE_V1: 1, INFINIBAND: 2 };
const MEMORY = FLAG.DIRECT | FLAG.MESSAGE;	// no packet: an operation through memory, without a PSN
// In the order of enum ladder_kind; then what events are.
const KINDS = [['send', 'SEND'], ['write', 'WRITE'], ['read', 'READ'], ['atomic', 'atomic'], ['flush', 'FLUSH'], ['ack', 'ACK'],
	['nak', 'NAK'], ['rnr', 'RNR'], ['cm', 'CM'], ['cnp', 'CNP'], ['call', 'calls'], ['completion', 'completions'], ['state', 'states'],
	['other', 'events']];
const KIND = Object.fromEntries(KINDS.map(([name], at) => [name, at]));
const COLOUR = ['send', 'write', 'read', 'atomic', 'flush', 'ack', 'nak', 'rnr', 'cm', 'cnp', 'soft', 'good', 'accent', 'soft'];

function parseEvent(text) {
	let json;
	try {
		json = JSON.parse(text);
	} catch (error) {
		json = null;
	}
	return json && typeof json === 'object' && !Array.isArray(json) ? json : { event: 'unreadable', text };
}

// An event: its text is read when it is asked for.
const parsedEvents = new Map();
const PARSED_MOST = 20000;

class TraceEvent {
	constructor(at) {
		this.at = at;
	}

	get time() {
		return E.time[this.at];
	}

	get lane() {
		return E.lane[this.at];
	}

	get latency() {
		return E.latency[this.at];
	}

	get json() {
		let json = parsedEvents.get(this.at);
		if (!json) {
			const size = DATA.pack?.piece;
			json = parseEvent(size ? pieceText('text', Math.floor(this.at / size), this.at % size) : DATA.event[this.at][2]);
			if (parsedEvents.size >= PARSED_MOST)
				parsedEvents.clear();
			parsedEvents.set(this.at, json);
		}
		return json;
	}
}

const isPacket = item => item < PACKETS;
const eventOf = item => new TraceEvent(item - PACKETS);
const flagged = (item, flag) => isPacket(item) && (P.flags[item] & flag) !== 0;

const KIND_OF = new Uint8Array(ITEMS);
KIND_OF.set(P.kind);
KIND_OF.set(E.kind, PACKETS);
const kindOf = item => KIND_OF[item];

// What tells the state of a queue pair from here on.
const isState = json => json.event === 'state' || json.event === 'queue_pair';
const stateOf = json => String(json.event === 'state' ? json.to : json.state);

// What the program was told of as failed. Not what was flushed, nor its state: both follow from something else, or were asked for.
const eventFailed = json => (json.event === 'completion' && json.status !== 'SUCCESS' && json.status !== 'WR_FLUSH_ERR') ||
	json.error !== undefined || json.event === 'unreadable';
const isFailure = item => !isPacket(item) && E.failed[item - PACKETS] === 1;

// Problems are found where the page is made: each cause is one. Marks are on all that belongs to them.
const PROBLEM = new Map(DATA.problem.map(([item, cause, times]) => [item, { cause: DATA.cause[cause], times }]));
const isProblem = item => PROBLEM.has(item);
const MARKED = new Uint8Array(ITEMS);
let OPERATIONS = 0;		// through memory
{
	const { flags } = P, bad = FLAG.LOST | FLAG.DROPPED | FLAG.AGAIN;
	for (let item = 0; item < PACKETS; item++) {
		const flag = flags[item], kind = KIND_OF[item];
		if (flag & bad || kind === KIND.nak || kind === KIND.rnr)
			MARKED[item] = 1;
		if (flag & MEMORY)
			OPERATIONS++;
	}
	MARKED.set(E.failed, PACKETS);
	for (const item of PROBLEM.keys())
		if (!isPacket(item))
			MARKED[item] = 1;
}
const isMarked = item => MARKED[item] === 1;

function colourName(item) {
	if (!isPacket(item) && isMarked(item))
		return 'bad';
	return COLOUR[kindOf(item)];
}

// Times: of the sender, of the receiver; one that is not known is that of the other end.
const sentAt = item => isPacket(item) ? (P.sent[item] >= 0 ? P.sent[item] : P.received[item]) : eventOf(item).time;
const receivedAt = item => isPacket(item) ? (P.received[item] >= 0 ? P.received[item] : P.sent[item]) : eventOf(item).time;

// Where its arrow begins. A sender may take its stamp when the call that sent is over: not later than received.
const beginOf = item => P.received[item] >= 0 ? Math.min(P.sent[item], P.received[item]) : P.sent[item];

// ---- lanes ----

const LANES = DATA.lane.map(([process, qpn, peer, address]) => ({ process, qpn, peer, address }));

const hex = (value, digits) => '0x' + value.toString(16).padStart(digits, '0');
const qpnText = qpn => qpn <= 1 ? String(qpn) : hex(qpn, 6);

function laneName(lane) {
	const { qpn, peer } = LANES[lane];
	if (qpn === -1)
		return 'process';
	if (qpn === -2)
		return 'QP of ' + qpnText(peer) + "'s peer";
	return qpn === 1 ? 'QP1 (CM)' : qpn === 0 ? 'QP0 (subnet)' : 'QP ' + qpnText(qpn);
}

const laneGroup = lane => LANES[lane].process >= 0 ? DATA.process[LANES[lane].process] : LANES[lane].address || '?';
const laneText = lane => laneName(lane) + ' of ' + laneGroup(lane);

// ---- bytes ----

let rawBytes = null;
let rawStarts = null;		// of packets in their piece; without pieces all are one

function rawStart(item) {
	if (!rawStarts) {
		const size = DATA.pack ? DATA.pack.piece : Infinity, { shown } = P;
		rawStarts = new Float64Array(PACKETS);
		for (let i = 0; i < PACKETS; i++)
			rawStarts[i] = i % size === 0 ? 0 : rawStarts[i - 1] + shown[i - 1];
	}
	return rawStarts[item];
}

function rawOf(item) {
	if (!DATA.pack && !rawBytes) {
		rawBytes = Uint8Array.from(atob(DATA.raw), c => c.charCodeAt(0));
		DATA.raw = '';
	}
	const bytes = DATA.pack ? piece('raw', Math.floor(item / DATA.pack.piece)).numbers.bytes : rawBytes;
	return bytes.subarray(rawStart(item), rawStart(item) + P.shown[item]);
}

// Up to 64 bits as a BigInt, at a bit counted from the most significant one of the first byte.
function bits(bytes, bit, width) {
	let value = 0n;
	for (let at = bit; at < bit + width;) {
		const take = Math.min(8 - at % 8, bit + width - at);
		const byte = bytes[at >> 3] ?? 0;
		value = value << BigInt(take) | BigInt(byte >> (8 - at % 8 - take) & (1 << take) - 1);
		at += take;
	}
	return value;
}

function layerOffset(item, name) {
	let at = flagged(item, MEMORY) ? 0 : P.bth[item] + 12;
	for (const layer of DATA.table.opcode[P.opcode[item]].layers) {
		if (layer === name)
			return at;
		at += LAYER_BYTES[layer];
	}
	return -1;
}
const LAYER_BYTES = {};
for (const [layer, , bit, width] of DATA.table.field)
	LAYER_BYTES[layer] = Math.max(LAYER_BYTES[layer] ?? 0, (bit + width) / 8);

function fieldOf(item, layer, name) {
	const at = layerOffset(item, layer);
	const field = DATA.table.field.find(f => f[0] === layer && f[1] === name);
	return at < 0 || !field ? null : bits(rawOf(item).subarray(at), field[2], field[3]);
}

// ---- words ----

function timeText(ns) {
	const size = Math.abs(ns);
	if (size < 1000)
		return ns + ' ns';
	if (size < 1e6)
		return (ns / 1e3).toFixed(size < 1e5 ? 2 : 1) + ' \u00b5s';
	if (size < 1e9)
		return (ns / 1e6).toFixed(size < 1e8 ? 2 : 1) + ' ms';
	return (ns / 1e9).toFixed(3) + ' s';
}

// By hand: the first toLocaleString() of a page takes as long as half of its layout.
const thousands = number => String(number).replace(/\B(?=(\d{3})+$)/g, ',');
const bytesText = bytes => bytes + ' B';
const opcodeWords = code => DATA.table.opcode[code].name.replace(/^(RC|UC|UD|XRC)_/, '').replace(/_/g, ' ');

// How an operation got through memory: a store or copy of the requester, or a message in a ring.
function mannerOf(item) {
	if (flagged(item, FLAG.MESSAGE))
		return 'message in a ring';
	return commentsOf(item).join(';').match(/(?:^|;) *by (store|copy)/)?.[1] ?? 'in memory';
}

const MEMORY_NAMES = ['SEND', 'RDMA WRITE', 'RDMA READ', 'atomic'];
const ATOMIC_NAMES = { 19: 'compare and swap', 20: 'fetch and add' };

function packetName(item) {
	if (flagged(item, MEMORY))
		return (P.kind[item] === KIND.atomic ? ATOMIC_NAMES[P.opcode[item] & 31] ?? 'atomic' : MEMORY_NAMES[P.kind[item]]) +
			(/_IMM$/.test(DATA.table.opcode[P.opcode[item]].name) ? ' with immediate' : '');
	if (P.cm[item] >= 0)
		return 'CM ' + DATA.table.cm[P.cm[item]].name.replace('_', ' ');
	if (P.kind[item] === KIND.cm)
		return 'MAD';
	if (P.kind[item] === KIND.rnr)
		return DATA.table.syndrome[P.syndrome[item]][0].replace('rnr nak', 'RNR NAK');
	if (P.kind[item] === KIND.nak)
		return DATA.table.syndrome[P.syndrome[item]][0].replace('nak', 'NAK').replace('psn', 'PSN');
	if (P.kind[item] === KIND.ack)
		return 'ACK';
	return opcodeWords(P.opcode[item]);
}

// One line for an arrow. @room: how much may be said, 0 to 2.
function packetLabel(item, room) {
	const parts = [packetName(item)];
	if (flagged(item, MEMORY)) {
		if (room > 0)
			parts.push(mannerOf(item));
		if (room > 1 && P.bytes[item])
			parts.push(bytesText(P.bytes[item]));
		return parts.join(' \u00b7 ');
	}
	const code = DATA.table.opcode[P.opcode[item]];
	if (flagged(item, FLAG.AGAIN))
		parts[0] = '\u21bb ' + parts[0];
	if (room > 0 && P.kind[item] !== KIND.cm) {
		const length = code.layers.includes('RETH') && P.bytes[item] === 0 ? fieldOf(item, 'RETH', 'DMA length') : null;
		if (length !== null)
			parts.push(bytesText(length));
		else if (P.bytes[item])
			parts.push(bytesText(P.bytes[item]));
		if (P.acks[item] > 1)
			parts.push('for ' + P.acks[item] + ' packets');
	}
	if (room > 1 && P.kind[item] !== KIND.cm)
		parts.push('PSN ' + P.psn[item]);
	return parts.join(' \u00b7 ');
}

function eventLabel(item) {
	const json = eventOf(item).json;
	const number = json.wr_id !== undefined ? ' wr ' + json.wr_id : '';
	switch (json.event) {
	case 'call':
		return (json.name ?? 'call') + (json.opcode ? ' ' + json.opcode : '') + (json.bytes !== undefined ? ' ' + json.bytes + ' B' : '') +
			number + (json.error !== undefined ? ': ' + json.error : '');
	case 'completion':
		return json.status === 'SUCCESS' ? '\u2713 ' + (json.opcode ?? '') + number : '\u2717 ' + json.status + number;
	case 'state':
		return (json.from ? json.from + ' \u2192 ' : '') + json.to;
	case 'queue_pair':
		return 'is there: ' + [json.type, json.state, json.path ? 'by ' + json.path : ''].filter(part => part).join(' ');
	case 'drop':
		return 'dropped: ' + (json.reason ?? '');
	case 'cm':
		return String(json.name ?? 'CM event').replace('RDMA_CM_EVENT_', '');
	case 'async':
		return String(json.name ?? 'event').replace('IBV_EVENT_', '');
	case 'explain':
		return json.text ?? '';
	case 'fault':
		return 'fault: ' + (json.name ?? '');
	case 'process':
		return 'process: ' + (json.name ?? '') + (json.signal !== undefined ? ' by signal ' + json.signal : '');
	case 'lost':
		return json.records + ' records are missing here';
	case 'counters':
		return 'counters at its end';
	default:
		return String(json.event ?? 'event') + (json.text ? ' ' + json.text : '');
	}
}

// Where there is little room: without what all calls and states have in common.
const eventLabelShort = item => eventOf(item).json.event === 'explain' ? 'explanation' : eventLabel(item).replace(/^(ibv_post_|ibv_|rdma_)/, '').replace(/^\w+ \u2192 /, '\u2192 ')
	.replace(/RDMA_(WRITE|READ)/, '$1').replace(/^send /, '');

const itemLabel = (item, room = 2) => isPacket(item) ? packetLabel(item, room) : eventLabel(item);

function itemNotes(item) {
	if (!isPacket(item))
		return '';
	const notes = [];
	if (flagged(item, FLAG.LOST))
		notes.push('lost');
	if (flagged(item, FLAG.DROPPED))
		notes.push('dropped');
	if (flagged(item, FLAG.AGAIN))
		notes.push('retransmission');
	if (flagged(item, FLAG.FRAGMENT))
		notes.push('in IP fragments');
	if (flagged(item, FLAG.DUPLICATE))
		notes.push('received again');
	if (flagged(item, MEMORY))
		notes.push('through memory: ' + mannerOf(item));
	else if (flagged(item, FLAG.RING))
		notes.push('through a ring in memory');
	if (isProblem(item))
		notes.push('problem: ' + PROBLEM.get(item).cause);
	if (P.acks[item])
		notes.push('answers for ' + P.acks[item]);
	return notes.join(', ');
}

// Of sender and receiver; null: that one has none.
function commentPair(item) {
	if (!DATA.pack)
		return DATA.comment[item] ?? [];
	const size = DATA.pack.piece, index = Math.floor(item / size), at = 2 * (item % size);
	return [pieceText('comment', index, at), pieceText('comment', index, at + 1)];
}
const commentsOf = item => commentPair(item).filter(c => c);
const searchTexts = new Array(ITEMS);

function searchText(item) {
	if (searchTexts[item] !== undefined)
		return searchTexts[item];
	const words = isPacket(item)
		? [packetName(item), DATA.table.opcode[P.opcode[item]].name, ...(flagged(item, MEMORY) ? [] : ['psn', P.psn[item], hex(P.psn[item], 6)]), itemNotes(item),
			laneText(P.from[item]), laneText(P.to[item]), ...commentsOf(item)]
		: [eventLabel(item), JSON.stringify(eventOf(item).json), laneText(eventOf(item).lane)];
	return searchTexts[item] = words.join(' ').toLowerCase();
}

const ERRORS = new Map();
for (const [kind, name, number, heading, text] of DATA.table.errors) {
	ERRORS.set(kind + ' ' + name, { heading, text });
	if (number >= 0)
		ERRORS.set(kind + ' ' + number, { heading, text });
}
