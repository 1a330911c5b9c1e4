-- weft's submission hook. Batch jobs that ask for GPUs are held until weft starts them; what a job says about itself in
-- WEFT_DESCRIPTION (sbatch --export=ALL,WEFT_DESCRIPTION='model=resnet50 iterations=1000') goes into its comment.
-- Everything else passes untouched. Keep your own rules: call these two functions from yours.

local partitions = { @PARTITIONS@ }  -- empty: all
local owners = { @OWNERS@ }          -- who may release jobs: those who run weft
local keys = { @KEYS@ }

local function contains(list, value)
    for _, entry in ipairs(list) do
        if entry == value then return true end
    end
    return false
end

local function ours(partition)
    if #partitions == 0 or partition == nil then return true end
    for name in string.gmatch(partition, "[^,]+") do
        if contains(partitions, name) then return true end
    end
    return false
end

local function asks_for_gpus(job)
    for _, field in ipairs({ "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task", "gres" }) do
        local value = job[field]
        if value ~= nil and string.find(value, "gpu") then return true end
    end
    return false
end

local function unknown_word(said)
    for key in string.gmatch(said, "([%w_-]+)=") do
        if not contains(keys, key) then return key end
    end
    return nil
end

local function chooses_nodes(job)
    local options = { nodelist = "req_nodes", exclude = "exc_nodes", constraint = "features", reservation = "reservation" }
    for option, field in pairs(options) do
        if job[field] ~= nil and job[field] ~= "" then return option end
    end
    return nil
end

function slurm_job_submit(job, part_list, submit_uid)
    if not ours(job.partition) or not asks_for_gpus(job) then return slurm.SUCCESS end
    if job.script == nil or job.script == "" then
        slurm.log_user("weft schedules the GPUs here and runs batch jobs: use sbatch, for one job without parts, or another partition")
        return slurm.ERROR
    end
    local option = chooses_nodes(job)
    if option ~= nil then
        slurm.log_user("weft chooses the nodes of this job: submit it without --%s", option)
        return slurm.ERROR
    end
    local said = job.environment ~= nil and job.environment["WEFT_DESCRIPTION"] or nil
    if said ~= nil and said ~= "" then
        job.comment = (job.comment ~= nil and job.comment .. " " or "") .. "weft: " .. said
    end
    local told = job.comment ~= nil and string.match(job.comment, "weft:(.*)") or nil
    local wrong = told ~= nil and unknown_word(told) or nil
    if wrong ~= nil then
        slurm.log_user("weft does not know '%s'; a description has the words: %s", wrong, table.concat(keys, ", "))
        return slurm.ERROR
    end
    job.priority = 0
    job.requeue = 1
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, part_list, modify_uid)
    if contains(owners, modify_uid) or not ours(record.partition) or record.priority ~= 0 then return slurm.SUCCESS end
    if job.priority ~= nil and job.priority ~= slurm.NO_VAL and job.priority ~= 0 then
        slurm.log_user("weft starts this job; squeue -O jobid,admin_comment:100 tells why it waits")
        return slurm.ERROR
    end
    return slurm.SUCCESS
end

return slurm.SUCCESS
