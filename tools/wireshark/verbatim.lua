-- SPDX-License-Identifier: BSD-2-Clause
-- What `verbatim trace` writes, in Wireshark and tshark (docs/trace-format.md): events as rows with a name and words,
-- what the comments of packets say as fields, operations through memory as what they are, and the other end of a
-- packet as its arrival, not as a second packet. Filters: verbatim.event, verbatim.qp, verbatim.path ...

local verbatim = Proto("verbatim", "Verbatim trace")
local twin = Proto("verbatim_twin", "Verbatim: the other end of a packet")

local NAMES = { "event", "name", "qp", "cq", "wr_id", "opcode", "bytes", "status", "error", "from", "to", "why", "reason",
	"psn", "text", "id", "peer", "rkey", "type", "mask", "access", "device", "direction", "rule", "records",
	"path", "route", "state", "message", "retransmission", "dropped", "payload", "by", "source", "destination", "dest_qp", "address",
	"service", "imm", "invalidate", "compare", "swap", "add", "original", "solicited" }
local fields, list = {}, {}
for _, name in ipairs(NAMES) do
	fields[name] = ProtoField.string("verbatim." .. name, name)
	list[#list + 1] = fields[name]
end
verbatim.fields = list

local comments = Field.new("frame.comment")
local EVENT = "\0\12\0\4json\0\0\0\0"

-- A flat object, as our events are: key and value, in order.
local function members(text)
	local found, at = {}, 1
	while true do
		local from, to, key = text:find('"([%w_]+)":', at)
		if not from then
			return found
		end
		local value
		if text:sub(to + 1, to + 1) == '"' then
			local stop = to + 2
			while stop <= #text and text:sub(stop, stop) ~= '"' do
				stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
			end
			value = text:sub(to + 2, stop - 1):gsub("\\(.)", "%1")
			at = stop + 1
		else
			value = text:match("[^,}]*", to + 1)
			at = to + 1 + #value
		end
		found[#found + 1] = { key, value }
		found[key] = value
	end
end

local function say(one)
	local words = {
		call = function()
			return (one.name or "call") .. (one.opcode and " " .. one.opcode or "") ..
				(one.bytes and " " .. one.bytes .. " B" or "") .. (one.wr_id and " wr " .. one.wr_id or "") ..
				(one.mask and " " .. one.mask or "") .. (one.error and ": " .. one.error or "")
		end,
		completion = function()
			return "completion" .. (one.opcode and " " .. one.opcode or "") .. " wr " .. (one.wr_id or "?") ..
				": " .. (one.status or "?")
		end,
		state = function() return (one.from or "?") .. " -> " .. (one.to or "?") .. (one.why and ", " .. one.why or "") end,
		drop = function() return "dropped: " .. (one.reason or "?") end,
		fault = function() return "fault on purpose: " .. (one.name or "?") end,
		cm = function() return (one.name or "CM event") .. (one.status and one.status ~= "0" and ", status " .. one.status or "") end,
		async = function() return one.name or "event" end,
		explain = function() return one.text or "" end,
		process = function() return "process " .. (one.name or "") .. " " .. (one.program or "") end,
		operation = function()
			return (one.opcode or "operation") .. (one.bytes and " " .. one.bytes .. " B" or "")
		end,
		consumed = function() return "a message was consumed" end,
		lost = function() return (one.records or "?") .. " records are missing here" end,
		counters = function() return "counters at its end" end,
	}
	local text = words[one.event] and words[one.event]() or (one.event or "event")
	return (one.qp and "QP " .. one.qp .. " " or "") .. text
end

local function add(tree, one)
	for _, member in ipairs(one) do
		if fields[member[1]] then
			tree:add(fields[member[1]], tostring(member[2]))
		else
			tree:add(verbatim, member[1] .. ": " .. tostring(member[2]))
		end
	end
end

-- "key value; key value ..."
local function comment_members(text)
	local found = {}
	for part in text:gmatch("[^;]+") do
		local key, value = part:match("^%s*(%S+)%s+(.-)%s*$")
		if key and fields[key] then
			found[#found + 1] = { key, value }
			found[key] = value
		end
	end
	return found
end

local CODES = { [0] = "SEND", "SEND", "SEND", "SEND", "SEND", "SEND", "RDMA WRITE", "RDMA WRITE", "RDMA WRITE", "RDMA WRITE",
	"RDMA WRITE", "RDMA WRITE", "RDMA READ", "RDMA READ answer", "RDMA READ answer", "RDMA READ answer", "RDMA READ answer",
	"ACK", "atomic answer", "atomic", "atomic", nil, "SEND", "SEND" }

local WORDS = { SEND_WITH_IMM = "SEND", SEND_WITH_INV = "SEND", RDMA_WRITE = "RDMA WRITE", RDMA_WRITE_WITH_IMM = "RDMA WRITE",
	RDMA_READ = "RDMA READ", ATOMIC_CMP_AND_SWP = "atomic", ATOMIC_FETCH_AND_ADD = "atomic" }

-- What went through memory: its row, of the words of its comment.
local function memory(pinfo, what, bytes, one)
	pinfo.cols.protocol = "MEMORY"
	pinfo.cols.info = what .. (one.by and " by " .. one.by or one.message and ", message " .. one.message ..
		" in a ring" or " through memory") .. (bytes and ", " .. bytes .. " B" or "") ..
		(one.wr_id and ", wr " .. one.wr_id or "")
end

-- Where the BTH begins in an IP packet, and nil where that is none of ours.
local function bth_of(tvb, at)
	if tvb:len() < at + 28 then
		return nil
	end
	local head = tvb(at, 1):uint()
	if head < 0x10 then	-- no IP: an LRH, and by its next header a GRH
		local bth = at + 8 + (tvb(at + 1, 1):uint() % 4 == 3 and 40 or 0)
		return tvb:len() >= bth + 12 and bth or nil
	end
	local udp = at + (head >= 0x60 and 40 or (head % 16) * 4)
	return tvb:len() >= udp + 20 and udp + 8 or nil
end

function verbatim.dissector(tvb, pinfo, tree)
	if tvb:len() > 12 and tvb:raw(0, 12) == EVENT then
		local one = members(tvb:raw(12))
		if one.event then
			local box = tree:add(verbatim, tvb(12), "Verbatim event: " .. say(one))
			pinfo.cols.protocol = "VERBATIM"
			pinfo.cols.info = say(one)
			add(box, one)
			local comment = comments()
			local way = comment and comment_members(tostring(comment.value)) or {}
			if way.path then
				add(box, way)
				memory(pinfo, one.event == "consumed" and "consumed" or WORDS[one.opcode] or one.opcode or "operation",
					one.bytes, way)
			end
		end
		return
	end
	for _, comment in ipairs({ comments() }) do
		local one = comment_members(tostring(comment.value))
		if one.path then
			add(tree:add(verbatim, "Verbatim: " .. tostring(comment.value)), one)
			local bth = bth_of(tvb, 0)
			if (one.path == "direct" or one.message) and bth then
				local what = CODES[tvb(bth, 1):uint() % 32] or "operation"
				memory(pinfo, what == "ACK" and one.message and "consumed" or what, one.payload, one)
			end
		end
	end
end
register_postdissector(verbatim)

-- A packet of this trace, seen at its other end.
function twin.dissector(tvb, pinfo, tree)
	local bth = bth_of(tvb, 0)
	local words = "other end of a packet"
	if bth then
		local roce = tvb(bth)
		words = string.format("arrives at QP 0x%06x: %s", roce(5, 3):uint(), CODES[roce(0, 1):uint() % 32] or "packet")
		local comment = comments()
		local one = comment and comment_members(tostring(comment.value)) or {}
		if one.message then
			words = words .. ", message " .. one.message
		else
			words = words .. ", PSN " .. roce(9, 3):uint()
		end
		if one.dropped then
			words = words .. ", dropped: " .. one.dropped
		end
	end
	pinfo.cols.protocol = "VERBATIM"
	pinfo.cols.info = words
	tree:add(twin, tvb(), "Verbatim: " .. words)
	return tvb:len()
end
