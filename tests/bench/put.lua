-- For wrk: PUTs of 1 KiB to 64 files in turn. The argument is the path up to the file's number.
local FILES = 64
local requests = {}
local at = 0

function init(args)
  local body = string.rep("0123456789abcde\n", 64)
  for i = 1, FILES do
    requests[i] = wrk.format("PUT", args[1] .. i, nil, body)
  end
end

function request()
  at = at % FILES + 1
  return requests[at]
end
