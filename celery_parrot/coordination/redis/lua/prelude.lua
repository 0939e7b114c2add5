-- Prelude of every script: arguments, time, the common key, the answer.
--
-- KEYS[1]  the common key (hash "coordinator"); the others are built from the prefix and live in the same slot
-- ARGV[1]  JSON, the same in every call of a client: prefix, durations in milliseconds, limits
-- ARGV[2]  the epoch that the caller knows, empty if none
-- ARGV[3]  an id for a new epoch, used only if one has to be made
-- ARGV[4]  JSON, what this call is about
-- ARGV[5]  milliseconds added to the clock (tests move time with it)
--
-- Times are integer milliseconds of this server's clock: JSON numbers keep 14 digits here, so microseconds would be
-- cut. Due times travel as ISO text, exactly as Python writes them, and are compared as text.

local conf = cjson.decode(ARGV[1])
local known, candidate = ARGV[2], ARGV[3]
local call = cjson.decode(ARGV[4])

local function K(suffix)
  return conf.prefix .. suffix
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000) + tonumber(ARGV[5])

-- ISO text of an instant, as Python's isoformat() of a UTC datetime writes it.
local function iso(ms)
  local seconds = math.floor(ms / 1000)
  local fraction = ms - seconds * 1000
  local z = math.floor(seconds / 86400)
  local rest = seconds - z * 86400
  z = z + 719468 -- days from 0000-03-01, the calendar that makes leap days the last of their year
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  local text = string.format('%04d-%02d-%02dT%02d:%02d:%02d', year, month, day,
    math.floor(rest / 3600), math.floor(rest % 3600 / 60), rest % 60)
  if fraction > 0 then
    text = text .. string.format('.%03d000', fraction)
  end
  return text .. '+00:00'
end

local now_text

local function iso_now()
  now_text = now_text or iso(now)
  return now_text
end

-- Digits only, always 20 of them: comparing ISO text itself would follow the server's locale, in which '+' and '.'
-- may come in any order. Nil for what is no moment.
local function sortable(moment)
  local y, mo, d, h, mi, s, tail = moment:match('^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)(.*)$')
  if not y then
    return nil
  end
  local fraction = tail:match('^%.(%d+)') or ''
  return y .. mo .. d .. h .. mi .. s .. (fraction .. '000000'):sub(1, 6)
end

-- --- the common key -------------------------------------------------------------------------------------------

local common = {}

-- The server's identity, empty where the ACL forbids to ask.
local function server_id()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then
    return ''
  end
  return info:match('run_id:(%x+)') or ''
end

-- The number of a field of it. Rubbish would stop everything for ever, so it says so.
local function common_number(field, value)
  return tonumber(value or '0') or bad('coordinator', field, 'holds no number')
end

local function read_common()
  local raw = ask('coordinator', 'HMGET', KEYS[1], 'epoch', 'run_id', 'touched', 'judge_from', 'quiet_until', 'remembered',
    'beats_from')
  common.epoch = raw[1] or ''
  common.run_id = raw[2] or ''
  common.touched = common_number('touched', raw[3])
  common.judge_from = common_number('judge_from', raw[4])
  common.quiet_until = common_number('quiet_until', raw[5])
  common.remembered = raw[6] or ''
  common.beats_from = common_number('beats_from', raw[7])
  common.server = server_id()
  common.changed = common.run_id ~= common.server and common.run_id ~= '' and common.server ~= ''
end

-- A silence of everybody for conf.untouched: nobody is judged for one lease time. After half such a silence no beat is
-- for half of it, in which every living one is heard again: an outage just too short to count makes nobody look dead.
local function touch()
  local silence = now - common.touched
  if common.touched > 0 and silence >= conf.untouched then
    common.judge_from = math.max(common.judge_from, now + conf.lease)
  elseif common.touched > 0 and silence >= conf.untouched / 2 then
    common.beats_from = math.max(common.beats_from, now + math.floor(conf.untouched / 2))
  end
  redis.call('HSET', KEYS[1], 'epoch', common.epoch, 'run_id', common.run_id, 'touched', now,
    'judge_from', common.judge_from, 'beats_from', common.beats_from, 'quiet_until', common.quiet_until,
    'remembered', common.remembered)
  redis.call('PEXPIRE', KEYS[1], conf.keep)
  if common.new then -- not before: a script that has deleted may write beyond the server's memory limit
    redis.call('HDEL', KEYS[1], 'mirror_of')
    redis.call('DEL', K('mirrored'))
  end
end

-- What nothing can go on without: the common key, and with `outbox` the outbox. The answer to give at once, or nil.
local function unusable(outbox)
  local ok, err = pcall(read_common)
  if ok and outbox then
    ok, err = pcall(ask, 'pending', 'ZCARD', K('pending'))
  end
  if ok then
    return nil
  elseif type(err) == 'table' and err.suffix then
    return { 'BAD', err.suffix, err.part, err.reason }
  end
  error(err, 0)
end

local function new_epoch()
  common.epoch, common.run_id, common.remembered = candidate, common.server, ''
  common.new = true
end

-- Grant and judge nothing for one lease time, so that everybody can say what they remember.
local function keep_quiet()
  common.quiet_until = now + conf.lease
  common.judge_from = math.max(common.judge_from, common.quiet_until)
end

-- Start of every ordinary call. Returns the answer to give at once if the memory was lost or cannot be read, else nil.
-- A caller that knows no epoch adopts what there is or makes one; a changed server starts with silence.
local function enter(outbox)
  local broken = unusable(outbox)
  if broken then
    return broken
  end
  if known == '' then
    if common.epoch == '' then
      new_epoch()
    elseif common.changed then
      new_epoch()
      keep_quiet()
    end
  elseif known ~= common.epoch or common.changed then
    return { 'LOST', common.changed and '' or common.epoch }
  end
  touch()
  return nil
end

-- Start of a call that puts back what somebody remembers. The first to do so sets the silence.
local function rejoin()
  local broken = unusable(true)
  if broken then
    return broken
  end
  if common.epoch == '' or common.changed then
    new_epoch()
    keep_quiet()
  elseif common.epoch ~= known and common.remembered == '' then
    keep_quiet()
  end
  if common.epoch ~= known then
    common.remembered = '1'
  end
  touch()
  return nil
end

local function judging()
  return now >= common.judge_from
end

local function quiet()
  return now < common.quiet_until
end

local function answer(items)
  return { 'OK', common.epoch, now, common.judge_from, common.quiet_until, items, faults }
end

-- What a script of another room answers: it knows no epoch, so it can neither miss one nor touch the common key.
local function plain(items)
  return { now, items, faults }
end
