"""Two gantries with hands as an embodiment: two arms that are moved as one."""

import yaml

# Of each arm a slide along each axis of the table, a turn, and a hand of two fingers.
GANTRY = """<body name="{0}stand" pos="0 {1} 0"><body name="{0}a">
<joint name="{0}x" type="slide" axis="1 0 0" range="-.5 .9"/><body name="{0}b">
<joint name="{0}y" type="slide" axis="0 1 0" range="-.6 .6"/><body name="{0}c">
<joint name="{0}z" type="slide" axis="0 0 1" range="0 .9"/><body name="{0}d">
<joint name="{0}turn" axis="0 0 1" range="-180 180"/><body name="{0}hand" euler="180 0 0">
<geom type="box" size=".02 .04 .01"/>
<body name="{0}near"><joint name="{0}near" type="slide" axis="0 1 0" range="-.1 .1"/>
<geom type="box" size=".01 .01 .05" pos="0 .01 .06"/></body>
<body name="{0}far"><joint name="{0}far" type="slide" axis="0 1 0" range="-.1 .1"/>
<geom type="box" size=".01 .01 .05" pos="0 -.01 .06"/></body></body></body></body></body></body>
</body>"""
MODEL = ('<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="lamp">'
         f'<geom size=".2"/></body>{GANTRY.format("l_", 0.3)}{GANTRY.format("r_", -0.3)}'
         '</worldbody></mujoco>')
NAMES = ('l_x', 'l_y', 'l_z', 'l_turn', 'l_near', 'r_x', 'r_y', 'r_z', 'r_turn')
REST = [0.5, 0.0, 0.4, 0.0, 0.04, 0.5, 0.0, 0.4, 0.0]


def two_arms(folder, **changes):
    """Write the file of two gantries and return its path."""
    (folder / 'two.xml').write_text(MODEL)
    hand = {'stroke_m': 0.08, 'effort': 20.0, 'closed_at': [0.0, 0.0], 'open_at': [0.04, -0.04],
            'grasp': [0.0, 0.0, 0.09, 0.0, 0.0, 0.0], 'arm': 'both', 'closed': 0.0, 'open': 100.0}
    both = {'model': 'two.xml', 'joints': list(NAMES), 'base': 'world', 'tool': 'r_hand',
            'velocity': [1.0] * 9, 'acceleration': [5.0] * 9, 'torque': [60.0] * 9, 'reset': REST}
    path = folder / 'two.yaml'
    path.write_text(yaml.safe_dump({
        'name': 'two', 'title': 'two gantries', 'arms': {'both': both | changes},
        'grippers': {f'{side}_hand': hand | {'joints': [f'{side}_near', f'{side}_far']}
                     for side in 'lr'},
        'cameras': {}, 'layouts': {name: {'slices': [
            {'name': 'both.joint_position', 'size': 4, 'unit': unit, 'meaning': meaning},
            {'name': 'r_hand', 'size': 1},
            {'name': 'both.joint_position', 'size': 4, 'unit': unit, 'meaning': meaning},
            {'name': 'l_hand', 'size': 1}]} for name, unit, meaning in (
                ('targets', 'rad or m', 'absolute'), ('steps', 'rad or m', 'delta_target'))}}))
    return str(path)
