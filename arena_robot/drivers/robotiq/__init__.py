"""The Robotiq 2F-85 over Modbus RTU on a serial port."""
